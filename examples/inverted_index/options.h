// examples/inverted_index/options.h -- what the command line says, and its translation for the
// library.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tmh/options.hpp>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/index.h"

namespace inverted_index {

// Exit codes, as README.md lists them.
enum class Exit : int {
  kEqual = 0,      // the index equals the serial one
  kDifferent = 1,  // it does not, or a worker failed
  kBadInput = 2,   // nothing was run
  kInterrupted = 130,
};

struct Options {
  std::string path;  // empty: default_sources()
  std::uint32_t workers = 3;
  std::uint32_t kills = 25;
  std::uint32_t whole_kills = 1;  // times that every process which has the domain open is killed
  bool no_kills = false;
  bool tiny = false;
  std::uint64_t seed = 0;
  // 600 files, 8 MB: enough for tens of thousands of words, and seconds rather than minutes on two
  // slow cores. 64 KiB of each: a few copyright files that repeat dozens of licences would
  // otherwise take all the room.
  Limits limits{600, 8'000'000, std::uint64_t{64} << 10};
  Cut cut;
  std::string detection, tracking, policy;  // as spelt in tmh/options.hpp; empty: unset
  std::string durability = "strict";
  std::optional<bool> power_cut;  // unset: when the domain is durable
  // Two or three checkpoints in a default run, so that recovery shows both: what they spared it,
  // and what it replays.
  std::uint64_t checkpoint_bytes = std::uint64_t{8} << 20;
  std::uint64_t log_file_bytes = 0;  // 0: the library's
  std::string domain_folder;         // empty: a temporary one
  // The second part. The capacity: an L1d of 48 KiB keeps about as many random lines in RTM
  // (bench/capacity).
  bool no_hybrid = false;
  std::uint32_t hybrid_kills = 5;
  std::string hybrid_capacity = "32KiB/8/64";
  std::string hybrid_escalation = "never";  // of the counters; README.md says why
  std::string hybrid_durability = "none";
  // Set by the supervisor in its workers only.
  std::int32_t worker_slot = -1;
  ::pid_t parent = 0;
  int ledger = -1;  // descriptor

  [[nodiscard]] std::uint32_t worker_kills() const noexcept { return no_kills ? 0 : kills; }
  [[nodiscard]] std::uint32_t domain_kills() const noexcept { return no_kills ? 0 : whole_kills; }
  [[nodiscard]] std::uint32_t hybrid_worker_kills() const noexcept {
    return no_kills ? 0 : hybrid_kills;
  }
  [[nodiscard]] bool cuts_power() const noexcept {
    return power_cut.value_or(durability != "none");
  }
};

// Fills `options`. Returns an exit code >= 0 when the program is to end now (--help, or a usage
// error, already printed).
[[nodiscard]] int parse_command_line(int argc, const char *const *argv, Options *options);

// Throws BadInput with one sentence, which lists the right values.
void check_options(const Options &options);
[[nodiscard]] tmh::DomainOptions domain_options(const Options &options,
                                                const std::string &participant_name);
[[nodiscard]] tmh::DomainOptions hybrid_options(const Options &options,
                                                const std::string &participant_name);

// The arguments of worker `slot`, program name excluded. `ledger`: its descriptor.
[[nodiscard]] std::vector<std::string> worker_arguments(const Options &options,
                                                        const std::string &folder,
                                                        std::uint32_t slot, int ledger);

}  // namespace inverted_index
