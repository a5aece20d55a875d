// hierarchy/domain/line_mode.h -- line mode and page mode of one process: who switches, and when.
// Shape:     a process in line mode runs RTM; in page mode, level 2 on the process's views.
// Sharing:   threads: a switch holds the mutex of the process's runner.
// Contexts:  NOT async-signal-safe.
// Source:    thesis, section 6.2; hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#pragma once

#include <cstdint>

#include <tmh/error.hpp>

#include "hierarchy/domain/domain_parts.h"
#include "hierarchy/threads/threads.h"

namespace tmh::detail {

enum class BodyKind : std::uint8_t;  // tmh/site.hpp

// What runs instances at level 1.
enum class LineKind : std::uint8_t {
  kNone,
  kSoftware,
  kRtmOnLines,  // in RTM beside software lines, and in software where that does not do
  kHardware,    // in RTM, by plain loads and stores
};

class LineMode {
 public:
  // Of the domain; both outlive it.
  LineMode(const DomainParts &parts, DomainThreads &threads) noexcept
      : parts_(parts), threads_(threads) {}
  LineMode(const LineMode &) = delete;
  LineMode &operator=(const LineMode &) = delete;

  // Of instances with such a body.
  [[nodiscard]] LineKind kind(BodyKind body) const noexcept;
  // These two REQUIRE that this process runs RTM, and that this thread runs no instance.
  [[nodiscard]] Errc enter() noexcept;
  // After an instance at level 2 whose site goes on in RTM; as LineDomain's.
  [[nodiscard]] LineDomain::Given give_to_hardware() noexcept;
  // Before level 2 touches, maps or unmaps the process's views. REQUIRES its runner's mutex.
  [[nodiscard]] Errc leave() noexcept;

 private:
  void tell() noexcept;

  const DomainParts &parts_;
  DomainThreads &threads_;
};

}  // namespace tmh::detail
