// tests/histories/history.h -- what a run of the library is judged by: which instance read and
// wrote which values, and when.
// Shape:     a History is a plain list of instances; who produced it (a recorder, a simulation, a
//            hand) does not matter.
// Invariant: (1) every written value is written once in the whole history (unique_value), so that a
//            read names its writer.
//            (2) an instance reads a cell before it first writes it, so that every cell's version
//                order is known.
//            The checker refuses a history that breaks one of them (Fault::kMalformed): it would
//            prove nothing.
// Contexts:  this folder includes nothing of the library, so that no mistake of the engine can be
//            shared by its judge.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tmh::history {

using Cell = std::uint64_t;
using Value = std::uint64_t;

enum class Kind : std::uint8_t { kUpdate = 1, kQuery = 2 };

enum class Outcome : std::uint8_t {
  kCommitted = 1,
  kAborted = 2,
  kUnknown = 3,  // its process died before it could say
};

// Which engine ran it, as far as it got to say so; the checker asks all alike.
enum class RanAt : std::uint8_t {
  kUnknown = 0,
  kLines = 1,
  kHardware = 2,
  kPages = 3,
  kIrrevocably = 4
};

struct Operation {
  enum class Type : std::uint8_t { kRead = 1, kWrite = 2 };
  Type type = Type::kRead;
  Cell cell = 0;
  Value value = 0;  // read: what the load returned; write: what was stored
};

[[nodiscard]] constexpr Operation read(Cell cell, Value value) noexcept {
  return {Operation::Type::kRead, cell, value};
}
[[nodiscard]] constexpr Operation write(Cell cell, Value value) noexcept {
  return {Operation::Type::kWrite, cell, value};
}

struct InstanceId {
  std::uint32_t process = 0;
  std::uint32_t number = 0;  // counts the instances of one process
  friend constexpr auto operator<=>(const InstanceId &, const InstanceId &) noexcept = default;
};

struct Instance {
  InstanceId id;
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC, taken before the call that begins it
  // Taken after the call that ended it returned; ignored when the outcome is kUnknown.
  std::uint64_t end_ns = 0;
  Kind kind = Kind::kUpdate;
  Outcome outcome = Outcome::kCommitted;
  std::vector<Operation> operations;  // in program order
  // Beside the point for the checker.
  RanAt ran_at = RanAt::kUnknown;
  // Earlier attempts of the same update, which are the entries before it.
  std::uint32_t attempt = 0;
  bool was_ending = false;    // its body was done
  bool gave_up = false;       // ... and wanted to abort
  bool acknowledged = false;  // as durable, when it committed
  // An update under snapshot isolation: what it has read may have been changed when it commits.
  bool is_snapshot = false;
};

struct History {
  std::map<Cell, Value> initial;  // a cell that is not listed starts as 0
  std::vector<Instance> instances;
};

inline constexpr unsigned kCounterBits = 40;  // 2^40 writes per process, 2^24 processes

[[nodiscard]] constexpr Value unique_value(std::uint32_t process, std::uint64_t counter) noexcept {
  return (Value{process} << kCounterBits) | counter;
}

[[nodiscard]] std::string to_string(InstanceId id);
[[nodiscard]] std::string value_text(Value value);  // "p3:17" for unique_value(3, 17)
[[nodiscard]] const char *to_string(Outcome outcome) noexcept;

}  // namespace tmh::history
