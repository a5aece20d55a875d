// compat/libitm/process.cpp -- the environment, and the end of the process.
#include "compat/libitm/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "levels/line/rtm_detection.h"
#include "platform/assert.h"

namespace tmh::itm {

namespace {

struct MethodName {
  std::string_view name;
  Method method;
  const char *ours;  // null: it is ours
};

// GCC's names choose what serves the same purpose.
constexpr MethodName kMethodNames[] = {
    {"lines", Method::kLines, nullptr},
    {"rtm", Method::kRtm, nullptr},
    {"htm", Method::kRtm, "rtm"},
    {"serial", Method::kSerial, nullptr},
    {"pages", Method::kPages, nullptr},
    {"pages-serializable", Method::kPagesSerializable, nullptr},
    {"ml_wt", Method::kLines, "lines"},
    {"gl_wt", Method::kLines, "lines"},
    {"serialirr", Method::kSerial, "serial"},
    {"serialirr_onwrite", Method::kSerial, "serial"},
    {"serial_onwrite", Method::kSerial, "serial"},
};

const char *name_of(Method method) noexcept {
  for (const MethodName &each : kMethodNames)
    if (each.method == method && each.ours == nullptr) return each.name.data();
  return "";
}

const char *variable(const char *name) noexcept {
  const char *const value = secure_getenv(name);
  return value == nullptr || value[0] == '\0' ? nullptr : value;
}

template <class Function>
void find(const char *name, Function *function) noexcept {
  void *const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) die("the program has no operator new or delete");
  *function = reinterpret_cast<Function>(found);
}

alignas(Process) std::byte process_bytes[sizeof(Process)];
std::atomic<Process *> made{nullptr};
// While the process is made, and at a fork: a child that forked meanwhile would wait for ever.
std::atomic<bool> is_making{false};

void begin_making() noexcept {
  while (is_making.exchange(true, std::memory_order_acquire)) sched_yield();
}
void end_making() noexcept { is_making.store(false, std::memory_order_release); }

void end_of_thread(void *thread) { Process::self().end_thread(thread); }

}  // namespace

Process *make_process() noexcept {
  begin_making();
  Process *process = made.load(std::memory_order_relaxed);  // under is_making
  if (process == nullptr) {
    process = new (process_bytes) Process();
    made.store(process, std::memory_order_release);
  }
  end_making();
  return process;
}

Process &Process::self() noexcept {
  // acquire: pairs with make_process()
  Process *const process = made.load(std::memory_order_acquire);
  return process != nullptr ? *process : *make_process();
}

Process *Process::hold() noexcept {
  begin_making();
  return made.load(std::memory_order_relaxed);  // made by who held is_making
}

Process *Process::held() noexcept {
  return made.load(std::memory_order_relaxed);  // by who held is_making, or as it was then
}

void Process::let_go() noexcept { end_making(); }

bool Process::is_pages_asked_for() noexcept {
  const char *const method = variable("ITM_DEFAULT_METHOD");
  return method != nullptr && std::string_view(method).starts_with("pages");
}

Process::Process() noexcept {
  TMH_ASSERT(made.load(std::memory_order_relaxed) == nullptr);  // under is_making
  if (pthread_key_create(&thread_key, end_of_thread) != 0)
    die("there is no key for the data of threads left");
  read_environment();
  find("_Znwm", &operators.make);
  find("_Znam", &operators.make_array);
  find("_ZnwmRKSt9nothrow_t", &operators.try_make);
  find("_ZnamRKSt9nothrow_t", &operators.try_make_array);
  find("_ZdlPv", &operators.remove);
  find("_ZdaPv", &operators.remove_array);
  if (method == Method::kRtm && !line::detect_rtm().is_usable) {
    std::fprintf(stderr, "libitm (tmh): the method is lines, not rtm: %s\n",
                 line::detect_rtm().reason.c_str());
    method = Method::kLines;
  }
  if (method == Method::kPages || method == Method::kPagesSerializable) find_pages();
  if (method == Method::kLines || method == Method::kRtm) {
    has_lines = memory.open_process() == Errc::kOk;
    if (!has_lines)
      std::fprintf(stderr,
                   "libitm (tmh): no address space for the lines' table and logs: "
                   "transactions run one by one\n");
  }
  if (variable("TMH_ITM_STATISTICS") != nullptr) std::atexit(write_statistics);
}

void Process::find_pages() noexcept {
  const auto *const found = static_cast<const pages::Calls *>(dlsym(RTLD_DEFAULT, "tmh_itm_pages"));
  const bool is_there = found != nullptr && found->version == pages::kCallsVersion;
  if (is_there && found->is_wanted()) {
    pages = found;
    tmh::itm::pages::engine = found;
    return;
  }
  method = Method::kLines;
  if (is_there) return;  // what runs here has no transactions
  std::fprintf(stderr,
               "libitm (tmh): the method is lines, not pages: libtmh-itm-pages.so is not loaded "
               "first, as `tmh itm --method pages` does\n");
}

void Process::read_environment() noexcept {
  const char *const wanted = variable("ITM_DEFAULT_METHOD");
  if (wanted == nullptr) return;
  for (const MethodName &each : kMethodNames) {
    if (each.name != wanted) continue;
    method = each.method;
    if (each.ours != nullptr)
      std::fprintf(stderr, "libitm (tmh): ITM_DEFAULT_METHOD=%s: the method is %s\n", wanted,
                   each.ours);
    return;
  }
  std::fprintf(stderr, "libitm (tmh): ITM_DEFAULT_METHOD=%s is unknown: the method is lines\n",
               wanted);
}

namespace {

void append_to(const char *path, const char *text) noexcept {
  const int fd = std::strcmp(path, "-") == 0
                     ? STDERR_FILENO
                     : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::size_t bytes = std::strlen(text);
  if (fd < 0 || write(fd, text, bytes) != static_cast<ssize_t>(bytes))
    std::fprintf(stderr, "libitm (tmh): %s: %s\n", path, std::strerror(errno));
  if (fd >= 0 && fd != STDERR_FILENO) close(fd);
}

}  // namespace

void write_statistics() noexcept {
  const char *const path = variable("TMH_ITM_STATISTICS");
  if (path == nullptr) return;
  Process &process = Process::self();
  Counters counters;
  if (process.has_lines) process.memory.count_in(&counters);
  const auto total = [](const std::atomic<std::uint64_t> &each) {
    return static_cast<unsigned long long>(each.load(std::memory_order_relaxed));
  };
  const auto aborts = [&counters](AbortCause cause) {
    return static_cast<unsigned long long>(counters.line_aborts[static_cast<std::size_t>(cause)]);
  };
  char text[2048];
  if (process.pages != nullptr) {
    std::snprintf(text, sizeof text, "{\"library\": \"tmh\", \"method\": \"%s\", ",
                  name_of(process.method));
    const std::size_t begun = std::strlen(text);
    process.pages->statistics(text + begun, sizeof text - begun - 4);
    std::strcat(text, "}\n");
    return append_to(path, text);
  }
  std::snprintf(
      text, sizeof text,
      "{\"library\": \"tmh\", \"method\": \"%s\", \"begins\": %llu, \"commits\": %llu, "
      "\"aborts\": {\"validation\": %llu, \"conflict\": %llu, \"failed_by_other\": %llu, "
      "\"restart_or_cancel\": %llu}, \"alone\": %llu, \"alone_for_attempts\": %llu, "
      "\"irrevocable\": %llu, \"cancelled\": %llu, "
      "\"hardware\": {\"commits\": %llu, \"conflicts\": %llu, \"capacity\": %llu, \"other\": "
      "%llu}}\n",
      name_of(process.method), static_cast<unsigned long long>(counters.line_begins),
      static_cast<unsigned long long>(counters.line_commits), aborts(AbortCause::kValidation),
      aborts(AbortCause::kConflictSelf), aborts(AbortCause::kConflictOther),
      aborts(AbortCause::kUser), total(process.totals.alone), total(process.totals.for_attempts),
      total(process.totals.irrevocable), total(process.totals.cancelled),
      static_cast<unsigned long long>(counters.hardware_commits),
      total(process.totals.hardware_conflicts), total(process.totals.hardware_capacity),
      total(process.totals.hardware_other));
  append_to(path, text);
}

void die(const char *sentence) noexcept {
  std::fprintf(stderr, "libitm (tmh): %s\n", sentence);
  std::abort();
}

}  // namespace tmh::itm
