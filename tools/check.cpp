// tools/check.cpp -- tmh check: structure, allocator and log of a domain; every part is looked at, whatever is wrong with another.
// Invariant: nothing is written, and it ends: each part is bounded, and heaps, which are mapped, are walked in a child process, which a
//            file that is cut meanwhile, or a disk that fails, may end.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "levels/storage/heap.h"
#include "platform/files.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/info.h"
#include "tools/log_verify.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"

namespace tmh::tools {

using storage::ControlFile;
using storage::HeapCensus;
using storage::SegmentRecordV1;

namespace {

enum class State : std::uint8_t { kSound, kUnchecked, kTorn, kDamaged };

const char *to_string(State state) noexcept {
  switch (state) {
    case State::kSound:
      return "sound";
    case State::kUnchecked:
      return "unchecked";
    case State::kTorn:
      return "torn";
    case State::kDamaged:
      break;
  }
  return "damaged";
}

struct Part {
  std::string name;  // "structure", "heap a.db", "log"
  State state = State::kSound;
  std::string message;
};

struct HeapAnswer {
  Errc error = Errc::kOk;
  HeapCensus census;
};

HeapAnswer walk_heap(int file, const SegmentRecordV1 &segment) {
  HeapAnswer answer;
  const auto offset = static_cast<off_t>(segment.offset_bytes);
  void *base = ::mmap(nullptr, segment.size_bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file, offset);
  if (base == MAP_FAILED) {
    answer.error = Errc::kOutOfMemory;
    return answer;
  }
  answer.error = storage::heap_check(static_cast<const std::byte *>(base), segment.size_bytes, &answer.census);
  return answer;
}

// False: the child did not answer.
bool walk_heap_in_child(int file, const SegmentRecordV1 &segment, HeapAnswer *answer) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    const HeapAnswer found = walk_heap(file, segment);
    const bool told = ::write(ends[1], &found, sizeof found) == static_cast<ssize_t>(sizeof found);
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  const bool is_told = child > 0 && ::read(ends[0], answer, sizeof *answer) == static_cast<ssize_t>(sizeof *answer);
  ::close(ends[0]);
  if (child > 0) (void)::waitpid(child, nullptr, 0);
  return is_told;
}

Part check_heap(const std::string &folder, const SegmentRecordV1 &segment) {
  Part part{fmt::format("heap {}", segment.name), State::kDamaged, {}};
  const std::string path = segment_path(folder, segment);
  const platform::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) {
    part.message = fmt::format("{}: {}", path, std::strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    part.message = path + " is not a regular file";
  } else if (static_cast<std::uint64_t>(info.st_size) < segment.offset_bytes + segment.size_bytes) {
    part.message = path + ": shorter than its segment";
  } else if (HeapAnswer answer; !walk_heap_in_child(file.get(), segment, &answer)) {
    part.message = path + ": reading it killed the reader: it was cut short meanwhile, or its disk fails";
  } else if (answer.error == Errc::kOutOfMemory) {
    part.state = State::kUnchecked;
    part.message = path + ": no address space to map it";
  } else if (answer.error != Errc::kOk) {
    part.message = fmt::format("{}: {} ({})", path, Error(answer.error, "allocator").what(), errc_name(answer.error));
  } else {
    const HeapCensus &census = answer.census;
    part.state = State::kSound;
    part.message =
        fmt::format("{} in {}, {}", bytes_text(census.small_bytes + census.medium_bytes + census.large_bytes),
                    counted(census.small_blocks + census.medium_blocks + census.large_runs, "block"),
                    counted(census.roots, "root"));
  }
  return part;
}

// Why the data files cannot be judged as they lie there; empty: they can.
std::string unsettled(const std::string &folder, const ControlFile &control) {
  const SharedCounters shared = read_counters(folder);
  if (shared.is_open()) return "the domain is open: its data files lag behind its memory; ask again when it is closed";
  if (shared.has_state) return "everybody who had the domain open died: the next open puts its data files in order";
  if (control.header.durability == 0) return {};
  // Nothing goes home before its record is durable: with no record behind the checkpoint, the data files hold what it says.
  try {
    const LogVerdict log = verify_log(folder, control);
    if (log.transactions == 0 && log.end.error == Errc::kOk) return {};
  } catch (const Error &) {  // the log's own verdict tells
  }
  return "the domain was not closed: recovery (the next open, or tmh recover) puts its data files in order";
}

Part check_log(const std::string &folder, const ControlFile &control) {
  Part part{"log", State::kDamaged, {}};
  try {
    const LogVerdict verdict = verify_log(folder, control);
    const LogEnd &end = verdict.end;
    if (end.error != Errc::kOk) {
      part.message = fmt::format("{} ({})", end.why, errc_name(end.error));
      if (exit_of(end.error) != Exit::kDamage) part.state = State::kUnchecked;
      return part;
    }
    part.state = end.torn ? State::kTorn : State::kSound;
    part.message = verdict.was_never_made
                       ? "its creation was cut off; the next open makes it"
                       : fmt::format("{}, {} of log, {} LSN {}{}", counted(verdict.transactions, "transaction"),
                                     bytes_text(verdict.log_bytes), end.torn ? "torn tail at" : "clean end at", end.lsn,
                                     verdict.is_open ? " (so far: the domain is open)" : "");
  } catch (const Error &error) {
    part.state = exit_of(error.errc()) == Exit::kDamage ? State::kDamaged : State::kUnchecked;
    part.message = fmt::format("{} ({})", error.what(), errc_name(error.errc()));
  }
  return part;
}

std::vector<Part> check_all(const std::string &folder) {
  const auto control = read_control(folder);
  std::vector<Part> parts;
  for (const std::string &problem : inspect(folder).problems) parts.push_back({"structure", State::kDamaged, problem});
  if (parts.empty()) parts.push_back({"structure", State::kSound, "control file, segments, checkpoint, log files"});
  const std::string why_not = unsettled(folder, *control);
  for (const SegmentRecordV1 &segment : control->segments) {
    if (segment.state == 0 || segment.layout != 1) continue;  // raw: the user's bytes, of which we know nothing
    parts.push_back(why_not.empty() ? check_heap(folder, segment)
                                    : Part{fmt::format("heap {}", segment.name), State::kUnchecked, why_not});
  }
  if (control->header.durability != 0) parts.push_back(check_log(folder, *control));
  return parts;
}

}  // namespace

Exit run(const CheckCommand &command) {
  const std::vector<Part> parts = check_all(command.domain);
  State worst = State::kSound;
  for (const Part &part : parts) worst = std::max(worst, part.state);
  if (command.json) {
    Json list = Json::array();
    for (const Part &part : parts)
      list.push_back({{"part", part.name}, {"state", to_string(part.state)}, {"message", part.message}});
    print(Json{{"document", "tmh-check-1"},
               {"domain", command.domain},
               {"state", to_string(worst)},
               {"parts", std::move(list)}});
  } else {
    std::string out;
    for (const Part &part : parts) out += fmt::format("{:9} {}: {}\n", to_string(part.state), part.name, part.message);
    print(out);
  }
  return worst == State::kDamaged ? Exit::kDamage : worst == State::kTorn ? Exit::kTorn : Exit::kOk;
}

}  // namespace tmh::tools
