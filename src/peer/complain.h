/* SPDX-License-Identifier: Apache-2.0 */
/* Words beside a -errno, for allot_peer_error(): of each thread its own. */
#ifndef ALLOT_PEER_COMPLAIN_H
#define ALLOT_PEER_COMPLAIN_H

#define COMPLAINT_BYTES 768

/* Keeps the words and answers `r`. */
__attribute__((format(printf, 2, 3))) int complain(int r, const char *fmt, ...);

/* Of an errno, whatever its sign. */
const char *complain_words(int r);

#endif
