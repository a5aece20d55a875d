// tools/terminal.cpp -- see terminal.h.
#include "tools/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "platform/assert.h"
#include "platform/failure.h"
#include "tools/failure.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

constexpr const char *kEnter = "\x1b[?1049h\x1b[?25l";  // the alternate screen; no cursor
constexpr const char *kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char *kHome = "\x1b[H", *kClearLine = "\x1b[K", *kClearBelow = "\x1b[J";

// Past stdio, because it is also said while an exception is on its way.
void write_all(const char *text) noexcept {
  for (std::size_t left = std::char_traits<char>::length(text); left != 0;) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text, left);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) text += wrote, left -= static_cast<std::size_t>(wrote);
  }
}

}  // namespace

Terminal::Terminal() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    refuse(Errc::kBadArgument,
           "standard input and output are no terminal; --once and --batch print plain text");
  sigemptyset(&signals_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP})
    sigaddset(&signals_, number);
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) check(platform::fail_errno(Errc::kIo, "terminal"));
  signal_fd_ = platform::FileDescriptor(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) check(platform::fail_errno(Errc::kIo, "signalfd"));
  (void)::sigprocmask(SIG_BLOCK, &signals_, &signals_before_);
  enter();
}

Terminal::~Terminal() {
  leave();
  (void)::sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
}

void Terminal::enter() {
  TMH_ASSERT(!is_inside_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: ^C and ^Z are signals
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  is_inside_ = true;
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all(kEnter);
}

void Terminal::leave() noexcept {
  if (!is_inside_) return;
  is_inside_ = false;
  write_all(kLeave);
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

// As the shell expects it of a stopped job.
void Terminal::stop() {
  leave();
  (void)::raise(SIGSTOP);
  (void)::tcgetattr(STDIN_FILENO, &before_);
  enter();
}

Terminal::Size Terminal::size() const noexcept {
  winsize found{};
  Size size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0) return size;
  if (found.ws_col != 0) size.columns = found.ws_col;
  if (found.ws_row != 0) size.rows = found.ws_row;
  return size;
}

void Terminal::draw(const std::vector<std::string> &lines) {
  TMH_ASSERT(is_inside_);
  std::string out = kHome;
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += lines[i] + kClearLine + (i + 1 < lines.size() ? "\r\n" : "");
  print(out + kClearBelow);
  flush_output();
}

Terminal::Event Terminal::wait(std::uint64_t timeout_ns, char *key) {
  TMH_ASSERT(is_inside_ && key != nullptr);
  pollfd ready[2] = {{signal_fd_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  const int count = ::ppoll(ready, 2, &timeout, nullptr);
  if (count < 0 && errno == EINTR) return Event::kTimeout;
  if (count < 0) check(platform::fail_errno(Errc::kIo, "poll"));
  if ((ready[0].revents & POLLIN) != 0) {
    signalfd_siginfo info{};
    if (::read(signal_fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
      return Event::kTimeout;
    if (info.ssi_signo == SIGTSTP) stop();
    return info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH ? Event::kResized : Event::kEnd;
  }
  if (ready[1].revents == 0) return Event::kTimeout;
  return ::read(STDIN_FILENO, key, 1) == 1 ? Event::kKey : Event::kEnd;
}

}  // namespace tmh::tools
