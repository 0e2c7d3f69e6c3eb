# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel and the source archive of allot_tenant.py (PEP 517), by Python alone.

With ALLOT_TENANT_LIBRARY=FILE the wheel has that liballot-tenant.so in it, for containers whose image
has none."""
import base64
import hashlib
import os
import re
import sysconfig
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("allot_tenant.py", "backend.py", "pyproject.toml")


def project(key):
    """A value of [project]; tomllib is not in all Pythons that this is for."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        return re.search(rf'^{key} = "(.*)"$', file.read(), re.M)[1]


def stem():
    return f"{project('name').replace('-', '_')}-{project('version')}"


def metadata():
    return (f"Metadata-Version: 2.1\nName: {project('name')}\nVersion: {project('version')}\n"
            f"Summary: {project('description')}\nLicense: Apache-2.0\n"
            f"Requires-Python: {project('requires-python')}\n")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = os.environ.get("ALLOT_TENANT_LIBRARY")
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform()) if library else "any"
    info, tag = f"{stem()}.dist-info", f"py3-none-{platform}"
    files = {"allot_tenant.py": read(os.path.join(HERE, "allot_tenant.py"))}
    if library:
        files["liballot-tenant.so.0"] = read(library)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: allot\nTag: {tag}\n"
                              f"Root-Is-Purelib: {'false' if library else 'true'}\n").encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{stem()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # A date that every build has.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    archive = f"{stem()}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, archive), "w:gz") as tar:
        for name in FILES:
            tar.add(os.path.join(HERE, name), f"{stem()}/{name}")
    return archive
