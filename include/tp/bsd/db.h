/* tp/bsd/db.h -- <db.h> of programs that know no other: with this folder among those of headers. */
#include <tp/db.h>
