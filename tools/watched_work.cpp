// tools/watched_work.cpp -- see watched_work.h.
#include "tools/watched_work.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "platform/process.h"
#include "storage/log/log_state.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"
#include "tools/shared_file.h"

namespace tmh::tools {

namespace {

// Nobody is told of what is over sooner; a lock that is in use has changed hands by the next look.
constexpr std::uint64_t kNoticeNs = 3'000'000'000;
constexpr int kLookMs = 1000;

// The process that has locked the file, as the kernel lists it; 0: none, or one that this process
// may not see.
std::int32_t locker_of(const std::string &path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", ::major(info.st_dev), ::minor(info.st_dev),
                  static_cast<unsigned long>(info.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advice, mode, where;
    std::int32_t pid = 0;
    // "3: -> FLOCK": one that waits for lock 3.
    if (words >> number >> kind >> advice >> mode >> pid >> where && kind == "FLOCK" &&
        where == file)
      return pid;
  }
  return 0;
}

class HolderSearch {
 public:
  explicit HolderSearch(const std::string &folder)
      : folder_(folder), shared_(read_counters(folder)) {}

  std::vector<LockHolder> take() {
    using storage::LogState;
    if (const std::int32_t pid = locker_of(folder_ + "/tmh.lock"); pid > 0)
      add(pid, "the domain's folder lock");
    look_at("/tmh.state", sizeof(page::DomainState), offsetof(page::DomainState, lock),
            "the domain's lock");
    look_at("/tmh.log.state", sizeof(LogState), offsetof(LogState, lock), "the redo log's lock");
    look_at("/tmh.log.state", sizeof(LogState), offsetof(LogState, files_lock),
            "the lock of the log's files");
    look_at("/tmh.log.state", sizeof(LogState), offsetof(LogState, checkpoint_lock),
            "the lock of checkpoints and copies");
    for (const ParticipantCounters &one : shared_.participants)
      if (one.is_stopped && !is_known(one.pid)) add(one.pid, "");
    return std::move(found_);
  }

 private:
  void look_at(const char *file, std::size_t file_bytes, std::size_t offset, const char *lock) {
    TMH_ASSERT(file != nullptr && lock != nullptr);
    TMH_ASSERT(offset + sizeof(std::uint32_t) <= file_bytes);
    const std::vector<std::byte> bytes = read_some(folder_ + file, file_bytes);
    if (bytes.size() < file_bytes) return;
    // Without "somebody sleeps".
    const std::uint32_t word = field<std::uint32_t>(bytes.data(), offset) & 0x7fff'ffffu;
    if (word == 0) return;
    const std::uint32_t slot = platform::slot_of(platform::LockTag{word});
    for (const ParticipantCounters &one : shared_.participants)
      if (one.slot == slot && one.is_alive) add(one.pid, lock);
  }
  [[nodiscard]] bool is_known(std::int32_t pid) const {
    return std::any_of(found_.begin(), found_.end(),
                       [pid](const LockHolder &one) { return one.pid == pid; });
  }
  void add(std::int32_t pid, const std::string &lock) {
    LockHolder holder{pid, "", lock, !shared_.is_elsewhere && is_stopped(pid)};
    for (const ParticipantCounters &one : shared_.participants)
      if (one.pid == pid) holder.name = one.name;
    found_.push_back(std::move(holder));
  }

  const std::string &folder_;
  const SharedCounters shared_;
  std::vector<LockHolder> found_;
};

std::string text_of(const std::string &folder, const LockHolder &holder) {
  std::string text = fmt::format("tmh: waiting for process {}", holder.pid);
  if (!holder.name.empty()) text += fmt::format(" ({})", holder.name);
  text += holder.lock.empty()
              ? ", which is stopped and may hold what is needed here"
              : fmt::format(", which {}holds {}", holder.is_stopped ? "is stopped and " : "",
                            holder.lock);
  if (holder.is_stopped) text += fmt::format("; 'kill -CONT {}' lets it go on", holder.pid);
  return text + fmt::format("; 'tmh kill-stuck {} --pid {} --kill' ends it\n", printable(folder),
                            holder.pid);
}

// Tells of each once: at once when it is stopped, else when it still holds the same at the next
// look.
class Notices {
 public:
  Notices(const std::string &folder, pid_t self) : folder_(folder), self_(self) {}
  void look() {
    std::vector<LockHolder> now = lock_holders(folder_);
    std::erase_if(now, [this](const LockHolder &one) { return one.pid == self_; });
    const auto is_in = [](const std::vector<LockHolder> &all, const LockHolder &one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    for (const LockHolder &one : now) {
      if (is_in(told_, one) || !(one.is_stopped || is_in(before_, one))) continue;
      print_error(text_of(folder_, one));
      told_.push_back(one);
    }
    before_ = std::move(now);
  }

 private:
  const std::string &folder_;
  const pid_t self_;
  std::vector<LockHolder> before_, told_;
};

int wait_for(pid_t child) {
  TMH_ASSERT(child > 0);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// False: it still runs at the deadline.
bool watch(pid_t child, const WatchPlan &plan) {
  TMH_ASSERT(child > 0 && plan.timeout_s >= 0);
  const platform::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!process) return true;  // nobody is watched, and waitpid() waits
  const std::uint64_t start = platform::monotonic_ns(),
                      timeout_ns = static_cast<std::uint64_t>(plan.timeout_s * 1e9);
  Notices notices(plan.folder, child);
  for (;;) {
    const std::uint64_t passed = platform::monotonic_ns() - start;
    if (timeout_ns != 0 && passed >= timeout_ns) return false;
    if (passed >= kNoticeNs) notices.look();
    int wait_ms = kLookMs;
    if (timeout_ns != 0)
      wait_ms = std::min(wait_ms, static_cast<int>((timeout_ns - passed) / 1'000'000) + 1);
    pollfd ended{process.get(), POLLIN, 0};
    if (::poll(&ended, 1, wait_ms) > 0) return true;
  }
}

}  // namespace

bool is_stopped(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() &&
         (text[name_end + 2] == 'T' || text[name_end + 2] == 't');
}

std::vector<LockHolder> lock_holders(const std::string &folder) {
  try {
    return HolderSearch(folder).take();
  } catch (const Error &) {  // it is being made, or damaged: the child says so
    return {};
  }
}

Exit run_watched(const WatchPlan &plan, const std::function<Exit()> &work) {
  TMH_ASSERT(work != nullptr);
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) refuse(Errc::kOutOfMemory, "no further process can be started");
  if (child == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before prctl()
    return work();
  }
  const bool has_timed_out = !watch(child, plan);
  if (has_timed_out) (void)::kill(child, SIGKILL);
  const int status = wait_for(child);
  // Perhaps in the last moment.
  if (WIFEXITED(status)) return static_cast<Exit>(WEXITSTATUS(status));
  if (has_timed_out) {
    if (plan.clean_up) plan.clean_up();
    print_error(fmt::format(
        "tmh: {}: gave up after {} s, as --timeout says; the domain is whole (exit code {})\n",
        printable(plan.folder), plan.timeout_s, static_cast<int>(Exit::kTimedOut)));
    return Exit::kTimedOut;
  }
  (void)::signal(WTERMSIG(status), SIG_DFL);
  (void)::raise(WTERMSIG(status));
  return static_cast<Exit>(128 + WTERMSIG(status));
}

}  // namespace tmh::tools
