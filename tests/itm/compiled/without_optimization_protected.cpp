// tests/itm/compiled/without_optimization_protected.cpp -- with -fcf-protection an endbr64 lies
// where a begin returns to.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    0
// Flags:     -fcf-protection
// Says:      right
#include "tests/itm/compiled/without_optimization.cpp"
