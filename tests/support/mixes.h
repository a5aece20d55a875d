// tests/support/mixes.h -- options chosen at random: of a domain, and of each process that opens
// it, those that no two processes need share.
// Shape:     every value of every option is likely in each process, so a few processes meet every
//            pair of values soon, and most of three.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include <tmh/options.hpp>

namespace tmh::test {

struct DomainMix {
  DomainOptions options;  // what all processes share
  std::uint64_t processes = 2, steps_per_thread = 40;
  bool stalls = false;     // in random schedules (stalls.h)
  bool kills = false;      // processes die one by one
  bool massacres = false;  // all at once
  bool loses = false;      // ... and what they shared goes with them
  // The other steps need no level 2: RTM runs only while nobody is there.
  std::uint64_t at_pages_one_in = 1;
};

struct ProcessMix {
  DomainOptions options;
  std::uint64_t threads = 1;
  bool overrides = false;  // instances are acknowledged in ways of their own
  bool prefers_views = false;
  // Some of its bodies are plain: in RTM, or at level 2 where options.line says software.
  bool plain_sites = false;
  [[nodiscard]] bool stays_at_lines() const { return options.policies.escalation == "never"; }
};

enum class MixKind : std::uint8_t {
  kAny,       // level 1 in software, or none
  kHardware,  // in RTM, in some processes; the domain is what that needs
  kDurable,   // as kAny
};

// Of one opening, by a number drawn for it.
using MixOf = std::function<ProcessMix(std::uint64_t seed)>;

class Mixes {
 public:
  // kernel_tracking: works here.
  Mixes(std::uint64_t seed, bool kernel_tracking, MixKind kind = MixKind::kAny);
  [[nodiscard]] const DomainMix &domain() const noexcept { return domain_; }
  [[nodiscard]] ProcessMix process();                       // another one each time
  [[nodiscard]] ProcessMix process(std::uint64_t number) {  // the same for the same number
    random_.seed(number);
    return process();
  }
  // Some policy, for Domain::set_policy(); where it decides no conflicts, of the default's.
  [[nodiscard]] static std::string policy(std::mt19937_64 &random, bool decides_conflicts);
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] std::uint64_t seed() { return random_(); }

 private:
  void use_hardware(ProcessMix *mix);
  std::mt19937_64 random_;
  const bool kernel_tracking_;
  const MixKind kind_;
  DomainMix domain_;
};

[[nodiscard]] std::string to_string(const DomainMix &mix);
[[nodiscard]] std::string to_string(const ProcessMix &mix);

}  // namespace tmh::test
