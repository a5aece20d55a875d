// tests/itm/compiled/own_stacks_on_pages.cpp -- there, a transaction on a stack of the program's
// ends the process, with a sentence.
// Methods:   pages pages-serializable
// Levels:    2
// Says:      (status -6)
#include "tests/itm/compiled/own_stacks.cpp"
