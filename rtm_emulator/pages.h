// rtm_emulator/pages.h -- what a page's first touch would do on hardware.
// Contexts:  inside the emulator. Descriptors of /proc/self are opened at need, high up, and again
//            in a child of fork().
// Source:    Linux Documentation/admin-guide/mm/pagemap.rst.
#pragma once

#include <cstdint>

namespace tmh::rtm {

// Shared mappings that a thread has met: looking one up in /proc/self/maps costs 50 us. A page that
// was mapped anew since may count as shared wrongly, which lets a transaction write it that
// hardware would make copy it first.
class SharedMappings {
 public:
  [[nodiscard]] bool holds(std::uint64_t page) noexcept;

 private:
  struct Range {
    std::uint64_t begin, end;  // pages
  };
  Range ranges_[4] = {};
  std::uint32_t next_ = 0;
};

// Present in the page tables. Without /proc: true (the access itself then faults, or not).
[[nodiscard]] bool is_page_readable(std::uint64_t page) noexcept;
// ... and not to be copied at the first store, nor write-protected by userfaultfd.
[[nodiscard]] bool is_page_writable(std::uint64_t page, SharedMappings *known) noexcept;
// What a store's page fault would do, if any, without a signal; false: the page may not be written.
[[nodiscard]] bool populate_for_writing(std::uint64_t address) noexcept;

// Of the mapping that a page lies in: PROT_ bits; 0: none, or no /proc.
struct PageProtection {
  int bits;
  bool is_shared;
};
[[nodiscard]] PageProtection protection_of(std::uint64_t page) noexcept;

// Normal code, once: what this kernel can do, and its pages of clock data, which pagemap shows as
// absent.
void prepare_pages() noexcept;

}  // namespace tmh::rtm
