// levels/process/requests.h -- requests of other tasks for pages of this one: when they are
// answered, and when they, and the program's handlers, wait.
// Shape:     a request is a signal. While the engine changes mappings (Busy), it waits until that
//            is over. While a call of the C library's is in progress, the memory that it uses
//            stays.
// Contexts:  the task's own, and its signal handlers.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace tmh::itm::pages {

// What has interrupted this task: requests for pages, and the program's handlers; of these, those
// without SA_RESTART.
struct Interruptions {
  std::uint32_t requests, handlers, ending_handlers;
};
[[nodiscard]] Interruptions interruptions() noexcept;

// While it lives, a request for pages leaves the memory alone that make_plain() has been told of
// since: a call uses it.
class CallInProgress {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    // The caller makes it again when it says EINTR. A request that finds the call before the
    // kernel, or about to be started again by it, has it say so, and takes all pages.
    kRepeated,
    kOnce,
  };
  explicit CallInProgress(Kind kind) noexcept;
  ~CallInProgress();
  CallInProgress(const CallInProgress &) = delete;
  CallInProgress &operator=(const CallInProgress &) = delete;

 private:
  [[maybe_unused]] const Kind before_;
};

// This library changes mappings: a request for pages waits, and so do the program's handlers.
class Busy {
 public:
  Busy() noexcept;
  ~Busy();
  [[nodiscard]] static bool is_any() noexcept;
  Busy(const Busy &) = delete;
  Busy &operator=(const Busy &) = delete;
};

// The signal that asks for pages.
[[nodiscard]] int recall_signal() noexcept;
// [handler] It has come.
void note_request(ucontext_t *context) noexcept;
// This task waits for another: it gives what that one may wait for, if it is wanted.
void answer_if_wanted() noexcept;

// [handler] A signal has come that the program is not to notice: a call that it interrupts is made
// again.
void note_unseen_signal() noexcept;
// [handler] A handler of the program's runs.
void note_handler(bool is_restarting) noexcept;
// [handler] The program's handler is not to run now: the signal is sent again when nothing is in
// the way.
void put_off_signal(int signal) noexcept;

}  // namespace tmh::itm::pages
