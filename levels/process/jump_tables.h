// levels/process/jump_tables.h -- keeps plain calls of a program from touching its data's pages.
// Why:       a call of another module reads the caller's jump table, which lies beside the caller's
//            variables, where the loader may fill it at any time (no -z now). That plain access
//            would take the page from transactions at each call.
// Effect:    the program's call stubs read a copy of the table from a page of its own. Slots that
//            the loader has not filled yet keep theirs: run with LD_BIND_NOW=1.
#pragma once

namespace tmh::itm::pages {

// Of all modules but the runtimes. Best effort: what is not found stays as it is.
void move_jump_tables() noexcept;

}  // namespace tmh::itm::pages
