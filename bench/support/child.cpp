// bench/support/child.cpp -- starts a program and reads its two pipes until it ends.
#include "bench/support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const std::string &what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  void close() noexcept {
    if (fd_ >= 0) (void)::close(fd_);
    fd_ = -1;
  }
  void set(int fd) noexcept {
    TMH_ASSERT(fd_ < 0);
    fd_ = fd;
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end, write_end;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) check(errno, "pipe2");
    read_end.set(ends[0]);
    write_end.set(ends[1]);
  }
  // Appends what lies there; false at the end. REQUIRES: poll() has said that there is something.
  bool read_some(std::string *text) const {
    TMH_ASSERT(text != nullptr && read_end.get() >= 0);
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(read_end.get(), bytes.data(), bytes.size());
    if (count > 0) text->append(bytes.data(), static_cast<std::size_t>(count));
    return count > 0;
  }
};

std::vector<std::string> environment_of(const std::map<std::string, std::string> &changes) {
  std::vector<std::string> all;
  for (char **each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto &[name, value] : changes) {
    TMH_ASSERT(!name.empty() && name.find('=') == std::string::npos);
    if (!value.empty()) all.push_back(name + "=" + value);
  }
  return all;
}

std::vector<char *> pointers_to(std::vector<std::string> &texts) {
  std::vector<char *> all;
  for (std::string &text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// In the child, up to execvp(); what failed is left in `failure`. It dies with its parent: a server
// would stay.
[[noreturn]] void become(const ChildCommand &command, char **words, char **variables, int parent,
                         const Pipe &out, const Pipe &err, const Pipe &failure) {
  TMH_ASSERT(words[0] != nullptr && variables != nullptr && parent > 0);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool is_ready = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                        ::getppid() == parent && ::dup2(input, STDIN_FILENO) >= 0 &&
                        ::dup2(out.write_end.get(), STDOUT_FILENO) >= 0 &&
                        ::dup2(err.write_end.get(), STDERR_FILENO) >= 0 &&
                        (command.folder.empty() || ::chdir(command.folder.c_str()) == 0);
  environ = variables;
  if (is_ready) ::execvp(words[0], words);
  const int error = errno;
  (void)!::write(failure.write_end.get(), &error, sizeof error);
  ::_exit(127);
}

pid_t start(const ChildCommand &command, const Pipe &out, const Pipe &err) {
  TMH_ASSERT(!command.words.empty());
  std::vector<std::string> words = command.words;
  std::vector<std::string> variables = environment_of(command.environment);
  std::vector<char *> word_list = pointers_to(words), variable_list = pointers_to(variables);
  Pipe failure;
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) check(errno, "fork");
  if (pid == 0) become(command, word_list.data(), variable_list.data(), parent, out, err, failure);
  failure.write_end.close();
  int error = 0;
  // Ends when execvp() has closed the other end.
  if (::read(failure.read_end.get(), &error, sizeof error) != sizeof error) return pid;
  (void)::waitpid(pid, nullptr, 0);
  check(error, command.words[0]);
  return pid;
}

}  // namespace

std::string ChildOutcome::end(std::chrono::duration<double> time_max) const {
  if (was_late) return fmt::format("still ran after {} s", time_max.count());
  if (signal != 0) return fmt::format("died of signal {}", signal);
  return fmt::format("exit code {}", exit_code);
}

std::string ChildOutcome::last_words() const {
  const std::size_t last = err.find_last_not_of("\n");
  if (last == std::string::npos) return {};
  const std::size_t before = err.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return err.substr(first, last + 1 - first);
}

struct Child::Pipes {
  Pipe out, err;
  Descriptor process;  // pidfd
};

Child::Child(const ChildCommand &command)
    : pipes_(std::make_unique<Pipes>()),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(command.time_max)),
      pid_(start(command, pipes_->out, pipes_->err)) {
  pipes_->out.write_end.close();
  pipes_->err.write_end.close();
  pipes_->process.set(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  const int error = errno;
  if (pipes_->process.get() >= 0) return;
  end();
  check(error, "pidfd_open");
}

Child::~Child() { end(); }

// Processes that the child has left behind end with it, too.
void Child::end() noexcept {
  if (pid_ == 0) return;
  (void)::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  if (WIFEXITED(status)) outcome_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
}

// The child's last bytes are in the pipes when it has ended. Another process that it has left
// behind may hold the pipes longer.
bool Child::read_some() {
  TMH_ASSERT(pid_ > 0);
  const std::array<Pipe *, 2> pipes = {&pipes_->out, &pipes_->err};
  const std::array<std::string *, 2> texts = {&outcome_.out, &outcome_.err};
  while (true) {
    std::array<pollfd, 3> waited = {{{pipes[0]->read_end.get(), POLLIN, 0},
                                     {pipes[1]->read_end.get(), POLLIN, 0},
                                     {pipes_->process.get(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    outcome_.was_late = left.count() <= 0;
    if (outcome_.was_late) return false;
    constexpr std::int64_t kWaitMsMax = 1'000'000;
    static_assert(kWaitMsMax <= std::numeric_limits<int>::max(), "poll() takes an int");
    const auto wait_ms = static_cast<int>(std::min<std::int64_t>(left.count(), kWaitMsMax));
    if (::poll(waited.data(), waited.size(), wait_ms) < 0) {
      if (errno == EINTR) continue;
      check(errno, "poll");
    }
    bool has_read = false;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (waited[i].revents == 0) continue;
      if (pipes[i]->read_some(texts[i])) {
        has_read = true;
      } else {
        pipes[i]->read_end.close();  // poll() leaves it out
      }
    }
    if (has_read) return true;
    if ((waited[2].revents & POLLIN) != 0) return false;
  }
}

std::optional<std::string> Child::wait_for_line(const std::string &beginning) {
  TMH_ASSERT(!beginning.empty());
  const auto find = [&]() -> std::optional<std::string> {
    const std::string &text = outcome_.out;
    for (std::size_t first = 0; first < text.size();) {
      const std::size_t end = text.find('\n', first);
      if (end == std::string::npos) break;
      if (text.compare(first, beginning.size(), beginning) == 0)
        return text.substr(first + beginning.size(), end - first - beginning.size());
      first = end + 1;
    }
    return std::nullopt;
  };
  while (true) {
    if (const auto found = find(); found) return found;
    if (!read_some()) return find();
  }
}

void Child::ask_to_end() const {
  TMH_ASSERT(pid_ > 0);
  (void)::kill(pid_, SIGTERM);
}

ChildOutcome Child::wait() {
  while (read_some()) {
  }
  end();
  return outcome_;
}

}  // namespace tmh::bench
