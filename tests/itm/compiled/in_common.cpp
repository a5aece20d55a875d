// tests/itm/compiled/in_common.cpp -- as equal_stores.cpp, and each changes the word in common:
// that keeps them apart under snapshots, too.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    3
// Flags:     -DSTEP=1
// Says:      nobody on call in 0 of 300 rounds
#include "tests/itm/compiled/equal_stores.cpp"
