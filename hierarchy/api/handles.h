// hierarchy/api/handles.h -- what the handles of the public interface share: the domain behind one,
// and the refusal of a call that would store for a query.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <memory>
#include <string>

#include <tmh/allocator.hpp>
#include <tmh/domain.hpp>

namespace tmh::detail {

class DomainImpl;

[[nodiscard]] std::shared_ptr<DomainImpl> impl_of(const Domain &domain) noexcept;

[[nodiscard]] Domain domain_of(const Segment &segment) noexcept;

// Does this thread run an instance, of whatever domain and level?
[[nodiscard]] bool is_instance_here() noexcept;
// Does this thread run a query of level 2?
[[nodiscard]] bool is_page_query_here() noexcept;
// Throws Error(kQueryWrote). what: the library's call that stores, as "allocation".
[[noreturn]] void raise_query_wrote(const std::string &segment, const char *what);

// heap_allocate() and heap_deallocate() of tmh/allocator.hpp. need: what is counted where the call
// sends the instance to level 2.
[[nodiscard]] void *heap_allocate_for(Need need, std::byte *base, std::size_t bytes,
                                      std::size_t alignment);
void heap_deallocate_for(Need need, std::byte *base, void *pointer, std::size_t bytes,
                         std::size_t alignment);

}  // namespace tmh::detail
