#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/page.py PAGE.html OUT.h: a page as one piece, in C: the array page_text, and PAGE_POLICY,
what a browser may load for it (Content-Security-Policy).

What the page names beside it, a style sheet or a script, is put into it. By the policy a browser
runs these very bytes alone, by their hashes, and asks nobody but the page's own server."""
import base64
import hashlib
import re
import sys
from pathlib import Path

STYLE = re.compile(r'<link rel="stylesheet" href="(\w+\.css)">')
SCRIPT = re.compile(r'<script src="(\w+\.js)"></script>')


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def put_in(page, pattern, tag, folder):
    """The page with what it names in place of the name, and the hashes of that."""
    hashes = []

    def whole(match):
        text = (folder / match[1]).read_text(encoding="utf-8")
        if f"</{tag}" in text:
            raise SystemExit(f"{match[1]}: it would end at the </{tag} in it")
        hashes.append(hash_of(text))
        return f"<{tag}>{text}</{tag}>"

    return pattern.sub(whole, page), " ".join(hashes)


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    page, styles = put_in(source.read_text(encoding="utf-8"), STYLE, "style", source.parent)
    page, scripts = put_in(page, SCRIPT, "script", source.parent)
    policy = (f"default-src 'none'; style-src {styles}; script-src {scripts}; connect-src 'self'; "
              "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    data = page.encode()
    rows = [",".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24)]
    out.write_text(f'#define PAGE_POLICY "{policy}"\nstatic const unsigned char page_text[] = {{\n'
                   + ",\n".join(rows) + "};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
