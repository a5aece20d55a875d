// compat/libitm/exceptions.h -- what the C++ runtime does for a transaction that rolls back with
// exceptions allocated, thrown or caught.
// Shape:     object: what __cxa_allocate_exception() gives. No destructor of it runs: the stores
//            that made it are undone.
// Contexts:  of the thread whose exceptions they are.
// Why:       libstdc++'s __cxa_tm_cleanup is made for this.
#pragma once

#include <exception>

namespace tmh::itm {

// The runtime's count of exceptions thrown and not yet caught, of the calling thread.
[[nodiscard]] unsigned int *uncaught_exceptions() noexcept;
// Allocated, not thrown.
void free_exception(void *object);
// Lets go of it; it was kept so that its memory stays.
void drop_exception(std::exception_ptr &kept) noexcept;
// Thrown, not caught.
void delete_thrown(void *object) noexcept;
// Ends the `count` innermost handlers.
void end_catches(unsigned int count) noexcept;

}  // namespace tmh::itm
