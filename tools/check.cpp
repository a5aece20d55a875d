// tools/check.cpp -- tmh check: structure, allocators, chains and log of a domain; every part is
// looked at, whatever is wrong with another.
// Invariant: nothing is written, and it ends: each part is bounded, and heaps, which are mapped,
//            are walked in a child process, which a file that is cut meanwhile, or a disk that
//            fails, may end.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "storage/page_checksums.h"
#include "tools/chain_check.h"
#include "tools/check.h"
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

Exit exit_for(PartState state) noexcept {
  switch (state) {
    case PartState::kSound:
    case PartState::kUnchecked:
      return Exit::kOk;
    case PartState::kTorn:
      return Exit::kTorn;
    case PartState::kUnreadable:
      return Exit::kRefused;
    case PartState::kDamaged:
      break;
  }
  return Exit::kDamage;
}
PartState state_of(Errc error) noexcept {
  TMH_ASSERT(error != Errc::kOk);
  return exit_of(error) == Exit::kDamage ? PartState::kDamaged : PartState::kUnreadable;
}

std::string heap_name(const SegmentRecordV1 &segment) {
  return std::string("heap ") + segment.name;
}

struct HeapAnswer {
  Errc error = Errc::kOk;
  HeapCensus census;
};
static_assert(std::is_trivially_copyable_v<HeapAnswer> && sizeof(HeapAnswer) <= PIPE_BUF,
              "a child writes it into a pipe in one piece");

HeapAnswer walk_heap(int file, const SegmentRecordV1 &segment) {
  HeapAnswer answer;
  const auto offset = static_cast<off_t>(segment.offset_bytes);
  void *base =
      ::mmap(nullptr, segment.size_bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file, offset);
  if (base == MAP_FAILED) {
    answer.error = Errc::kOutOfMemory;
    return answer;
  }
  answer.error =
      storage::heap_check(static_cast<const std::byte *>(base), segment.size_bytes, &answer.census);
  return answer;
}

enum class Reader : std::uint8_t { kAnswered, kKilled, kNotStarted };

Reader walk_heap_in_child(int file, const SegmentRecordV1 &segment, HeapAnswer *answer) {
  TMH_ASSERT(file >= 0 && answer != nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Reader::kNotStarted;
  const pid_t child = ::fork();
  if (child == 0) {
    const HeapAnswer found = walk_heap(file, segment);
    const bool told = ::write(ends[1], &found, sizeof found) == static_cast<ssize_t>(sizeof found);
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  const bool is_told =
      child > 0 && ::read(ends[0], answer, sizeof *answer) == static_cast<ssize_t>(sizeof *answer);
  ::close(ends[0]);
  if (child < 0) return Reader::kNotStarted;
  (void)::waitpid(child, nullptr, 0);
  return is_told ? Reader::kAnswered : Reader::kKilled;
}

Part judge_heap(const std::string &path, const SegmentRecordV1 &segment, int file) {
  Part part{{}, PartState::kDamaged, {}};
  HeapAnswer answer;
  const Reader reader = walk_heap_in_child(file, segment, &answer);
  if (reader == Reader::kNotStarted) {
    part.state = PartState::kUnreadable;
    part.message = fmt::format("{}: no process to read it in: {}", path, std::strerror(errno));
  } else if (reader == Reader::kKilled) {
    part.message =
        path + ": reading it killed the reader: it was cut short meanwhile, or its disk fails";
  } else if (answer.error != Errc::kOk) {
    // What is no heap at all was one when the segment was made.
    if (answer.error != Errc::kNotAHeap) part.state = state_of(answer.error);
    part.message = fmt::format("{}: {} ({})", path, Error(answer.error, "allocator").what(),
                               errc_name(answer.error));
  } else {
    const HeapCensus &census = answer.census;
    part.state = PartState::kSound;
    part.message = fmt::format(
        "{} in {}, {}", bytes_text(census.small_bytes + census.medium_bytes + census.large_bytes),
        counted(census.small_blocks + census.medium_blocks + census.large_runs, "block"),
        counted(census.roots, "root"));
  }
  return part;
}

Part check_heap(const std::string &folder, const SegmentRecordV1 &segment) {
  TMH_ASSERT(storage::is_used(segment));
  Part part{{}, PartState::kDamaged, {}};
  const std::string path = segment_path(folder, segment);
  platform::FileDescriptor file;
  struct stat info {};
  const Errc error = platform::open_regular(path, O_RDONLY, platform::FileRole::kSegment, &file);
  if (error == Errc::kNotADomain) {
    part.message = platform::failure_detail();
  } else if (error != Errc::kOk || ::fstat(file.get(), &info) != 0) {
    if (errno != ENOENT) part.state = PartState::kUnreadable;
    part.message = error != Errc::kOk ? platform::failure_detail()
                                      : fmt::format("{}: {}", path, std::strerror(errno));
  } else if (static_cast<std::uint64_t>(info.st_size) < segment.offset_bytes + segment.size_bytes) {
    part.message = path + ": shorter than its segment";
  } else {
    part = judge_heap(path, segment, file.get());
  }
  return part;
}

struct LogLook {
  Part part{"log", PartState::kDamaged, {}};
  bool is_at_checkpoint = false;  // no transaction behind the checkpoint
};

LogLook look_at_log(const std::string &folder, const ControlFile &control) {
  LogLook look;
  try {
    const LogVerdict verdict = verify_log(folder, control);
    const LogEnd &end = verdict.end;
    if (end.error != Errc::kOk) throw Error(end.error, end.why);
    look.is_at_checkpoint = verdict.transactions == 0;
    look.part.state = end.torn ? PartState::kTorn : PartState::kSound;
    look.part.message =
        verdict.was_never_made
            ? "its creation was cut off; the next open makes it"
            : fmt::format("{}, {} of log, {} LSN {}{}",
                          counted(verdict.transactions, "transaction"),
                          bytes_text(verdict.log_bytes), end.torn ? "torn tail at" : "clean end at",
                          end.lsn, verdict.is_open ? " (so far: the domain is open)" : "");
  } catch (const Error &error) {
    look.part.state = state_of(error.errc());
    look.part.message = fmt::format("{} ({})", text_of(error), errc_name(error.errc()));
  }
  return look;
}

// May the data files be judged as they lie there? If not, the answer about each heap.
std::optional<Part> unsettled(const std::string &folder, bool is_behind_log) {
  try {
    const SharedCounters shared = read_counters(folder);
    if (shared.is_open())
      return Part{
          {},
          PartState::kUnchecked,
          "the domain is open: its data files lag behind its memory; ask again when it is closed"};
    if (shared.has_state)
      return Part{
          {},
          PartState::kUnchecked,
          "everybody who had the domain open died: the next open puts its data files in order"};
  } catch (const Error &error) {  // shared memory of another version, say
    return Part{{},
                state_of(error.errc()),
                fmt::format("{} ({})", text_of(error), errc_name(error.errc()))};
  }
  if (!is_behind_log) return std::nullopt;
  return Part{{},
              PartState::kUnchecked,
              "the domain was not closed: recovery (the next open, or tmh recover) puts its data "
              "files in order"};
}

// A heap that was walked while others had the domain open is no heap, and says nothing of what is
// on disk. The answer then; `life`: before.
std::optional<Part> opened_since(const std::string &folder, std::uint64_t life) {
  if (std::optional<Part> now = unsettled(folder, false); now.has_value()) return now;
  try {
    if (read_control(folder)->header.life == life) return std::nullopt;
  } catch (const Error &error) {
    return Part{{},
                state_of(error.errc()),
                fmt::format("{} ({})", text_of(error), errc_name(error.errc()))};
  }
  return Part{
      {}, PartState::kUnchecked, "the domain was open while its data files were read; ask again"};
}

std::vector<Part> checksum_parts(const std::string &folder, const ControlFile &control) {
  using State = storage::ChecksumsVerdict::State;
  const CheckpointSlots slots = read_checkpoint(folder, control);
  if (slots.current < 0) return {};  // the structure's part says so
  const storage::ChecksumsVerdict verdict =
      storage::verify_checksums(folder, control, slots.slot[slots.current].content);
  Part part{"page checksums", PartState::kDamaged, verdict.why};
  std::vector<Part> parts;
  switch (verdict.state) {
    case State::kNoTable:
      return {};
    case State::kNotCurrent:
      part.state = PartState::kUnchecked;
      part.message = "not of what the data files hold now: the domain is open, or was not closed";
      break;
    case State::kSound:
      part.state = PartState::kSound;
      part.message = counted(verdict.page_count, "page");
      break;
    case State::kPagesDiffer: {
      part.message = fmt::format("{} of {} differ from what was written", verdict.differing_count,
                                 counted(verdict.page_count, "page"));
      if (verdict.differing_count > verdict.differing.size())
        part.message += fmt::format("; the first {} are named", verdict.differing.size());
      for (const storage::ChecksumsVerdict::Page &page : verdict.differing) {
        const SegmentRecordV1 &segment = control.segments[page.segment];
        const std::uint64_t offset = segment.offset_bytes + page.page * kPageBytes;
        parts.push_back({fmt::format("page {} of {}", page.page, segment.name), PartState::kDamaged,
                         fmt::format("{}: bytes {} to {} differ from their checksum (segment {})",
                                     segment_path(folder, segment), offset, offset + kPageBytes - 1,
                                     page.segment)});
      }
      break;
    }
    case State::kTableDamaged:
      part.message = storage::checksums_path(folder) +
                     " itself is damaged, and says nothing of the data files: " + verdict.why;
      break;
    case State::kUnreadable:
      part.state = PartState::kUnreadable;
      break;
  }
  parts.insert(parts.begin(), std::move(part));
  return parts;
}

// Also of a backup, whose data files are not in order before it is opened.
std::vector<Part> check_checksums(const std::string &folder, const ControlFile &control) {
  std::vector<Part> parts = checksum_parts(folder, control);
  if (parts.empty() || parts.front().state != PartState::kDamaged) return parts;
  const std::optional<Part> now = opened_since(folder, control.header.life);
  if (!now.has_value()) return parts;
  parts = {*now};
  parts.front().name = "page checksums";
  return parts;
}

}  // namespace

std::vector<Part> check_domain(const std::string &folder) {
  const auto control = read_control(folder);
  std::vector<Part> parts;
  for (const std::string &problem : inspect(folder).problems)
    parts.push_back({"structure", PartState::kDamaged, problem});
  if (parts.empty())
    parts.push_back(
        {"structure", PartState::kSound, "control file, segments, checkpoint, log files"});
  std::optional<LogLook> log;
  if (control->header.durability != 0) log = look_at_log(folder, *control);
  // Nothing goes home before its record is durable: with no record behind the checkpoint, the data
  // files hold what it says.
  const std::optional<Part> instead = unsettled(folder, log.has_value() && !log->is_at_checkpoint);
  for (const SegmentRecordV1 &segment : control->segments) {
    if (!storage::is_used(segment)) continue;
    const bool is_heap = segment.layout == 1;
    // Other raw segments: the user's bytes, of which we know nothing.
    if (!is_heap && !holds_chains(segment)) continue;
    Part part = instead.has_value() ? *instead
                : is_heap           ? check_heap(folder, segment)
                                    : check_chains(folder, segment);
    if (!instead.has_value() && part.state == PartState::kDamaged)
      if (std::optional<Part> now = opened_since(folder, control->header.life); now.has_value())
        part = std::move(*now);
    parts.push_back(std::move(part));
    parts.back().name = is_heap ? heap_name(segment) : "chains";
  }
  if (log.has_value()) {
    for (Part &part : check_checksums(folder, *control)) parts.push_back(std::move(part));
    parts.push_back(std::move(log->part));
  }
  return parts;
}

const char *to_string(PartState state) noexcept {
  switch (state) {
    case PartState::kSound:
      return "sound";
    case PartState::kUnchecked:
      return "unchecked";
    case PartState::kTorn:
      return "torn";
    case PartState::kUnreadable:
      return "unreadable";
    case PartState::kDamaged:
      break;
  }
  return "damaged";
}

Exit run(const CheckCommand &command) {
  const std::vector<Part> parts = check_domain(command.domain);
  TMH_ASSERT(!parts.empty());  // the structure is one
  PartState worst = PartState::kSound;
  for (const Part &part : parts) worst = std::max(worst, part.state);
  if (command.json) {
    Json list = Json::array();
    for (const Part &part : parts)
      list.push_back(
          {{"part", part.name}, {"state", to_string(part.state)}, {"message", part.message}});
    print(Json{{"document", "tmh-check-1"},
               {"domain", command.domain},
               {"state", to_string(worst)},
               {"parts", std::move(list)}});
  } else {
    std::string out;
    for (const Part &part : parts)
      out += fmt::format("{:10} {}: {}\n", to_string(part.state), printable(part.name),
                         printable(part.message));
    print(out);
  }
  return exit_for(worst);
}

}  // namespace tmh::tools
