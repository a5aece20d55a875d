// tests/itm/threads/process.cpp -- the process that threads are of: its end, signals, children.
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/itm/program.h"
#include "tests/itm/threads/create.h"

namespace {

std::atomic<int> never{0};

void *wait_for_ever(void *) {
  while (never.load() == 0) sched_yield();
  return nullptr;
}

// One thread does it; main and another wait.
std::string while_others_wait(void *(*act)(void *)) {
  pthread_t waiting, acting;
  pthread_create(&waiting, nullptr, wait_for_ever, nullptr);
  pthread_create(&acting, nullptr, act, nullptr);
  pthread_join(waiting, nullptr);
  return "?";
}

std::atomic<int> signals{0};
void count_signal(int) { signals.fetch_add(1); }

// What a child says in its exit code.
int end_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

ITM_PROGRAM(process_exit_in_main, "dies with 4") {
  pthread_t thread;
  pthread_create(&thread, nullptr, wait_for_ever, nullptr);
  std::exit(4);
}

ITM_PROGRAM(process_exit_in_a_thread, "dies with 7") {
  return while_others_wait([](void *) -> void * { std::exit(7); });
}

ITM_PROGRAM(process_exit_in_a_thread_flushes, "written dies with 0") {
  return while_others_wait([](void *) -> void * {
    std::printf("written ");
    std::exit(0);
  });
}

ITM_PROGRAM(process_immediate_exit_in_a_thread, "dies with 9") {
  return while_others_wait([](void *) -> void * { _exit(9); });
}

ITM_PROGRAM(process_abort_in_a_thread, "dies of 6") {
  return while_others_wait([](void *) -> void * { std::abort(); });
}

ITM_PROGRAM(process_fault_in_a_thread, "dies of 11") {
  return while_others_wait([](void *) -> void * {
    volatile std::uintptr_t nowhere = 8;
    *reinterpret_cast<volatile int *>(nowhere) = 1;
    return nullptr;
  });
}

ITM_PROGRAM(process_termination_ends_all, "dies of 15") {
  return while_others_wait([](void *) -> void * {
    kill(getpid(), SIGTERM);
    return wait_for_ever(nullptr);
  });
}

ITM_PROGRAM(process_a_handler_of_main, "1") {
  struct sigaction action {};
  action.sa_handler = count_signal;
  sigaction(SIGUSR1, &action, nullptr);
  std::thread sender([] { kill(getpid(), SIGUSR1); });
  sender.join();
  while (signals.load() == 0) sched_yield();
  return itm::say(signals.load());
}

ITM_PROGRAM(process_a_signal_to_a_thread, "1 0") {
  struct sigaction action {};
  action.sa_handler = count_signal;
  sigaction(SIGUSR1, &action, nullptr);
  itm::Thread thread([]() -> void * {
    while (signals.load() == 0) sched_yield();
    return nullptr;
  });
  const int error = pthread_kill(thread.id(), SIGUSR1);
  thread.join();
  return itm::say(signals.load(), error);
}

ITM_PROGRAM(process_one_number_for_all, "1 1") {
  const pid_t own = getpid(), parent = getppid();
  pid_t theirs = 0, their_parent = 0;
  std::thread thread([&] {
    theirs = getpid();
    their_parent = getppid();
  });
  thread.join();
  return itm::say(own == theirs, parent == their_parent);
}

ITM_PROGRAM(process_fork_and_exec_in_a_thread, "3 5") {
  int first = 0, second = 0;
  std::thread thread([&] {
    const std::string command = "exit 3";
    pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(99);
    }
    first = end_of(child);
    int local = 4;
    child = fork();
    if (child == 0) {
      local += 1;
      _exit(local);
    }
    local = 1000;
    second = end_of(child);
  });
  thread.join();
  return itm::say(first, second);
}

ITM_PROGRAM(process_fork_in_main, "6 0 handled 1 1") {
  static int before = 0, after = 0;
  pthread_atfork([] { ++before; }, [] { ++after; }, nullptr);
  pthread_t waiting;
  pthread_create(&waiting, nullptr, wait_for_ever, nullptr);
  const pid_t own = getpid();
  const pid_t child = fork();
  if (child == 0) _exit(getppid() == own && getpid() != own ? 6 : 1);
  const int first = end_of(child);
  const pid_t next = fork();
  if (next == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(99);
  }
  const int second = end_of(next);
  return itm::say(first, second, "handled", before - 1, after - 1);
}

ITM_PROGRAM(process_system_and_popen_in_a_thread, "4 said") {
  int status = 0;
  std::string said;
  std::thread thread([&] {
    status = std::system("exit 4");
    std::FILE *const pipe = popen("echo said", "r");
    char line[16] = {};
    if (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) said = line;
    if (pipe != nullptr) pclose(pipe);
  });
  thread.join();
  return itm::say(WEXITSTATUS(status), said.substr(0, 4));
}

ITM_PROGRAM(process_spawn_in_a_thread, "8") {
  int ended = 0;
  std::thread thread([&ended] {
    std::string shell = "sh", option = "-c", command = "exit 8";
    std::vector<char *> arguments{shell.data(), option.data(), command.data(), nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments.data(), environ) == 0)
      ended = end_of(child);
  });
  thread.join();
  return itm::say(ended);
}

// Of method pages: a thread that is killed is one that has died, and not the program.
// The process that was forked ends; its child goes on.
ITM_PROGRAM(process_a_daemon_has_threads, "0 2 0") {
  int ends[2];
  if (pipe(ends) != 0) return "?";
  const pid_t child = fork();
  if (child == 0) {
    const int result = daemon(1, 1);
    std::thread one([] { signals.fetch_add(1); }), other([] { signals.fetch_add(1); });
    one.join();
    other.join();
    const std::string said = std::to_string(result) + " " + std::to_string(signals.load());
    _exit(write(ends[1], said.data(), said.size()) == 3 ? 0 : 1);
  }
  close(ends[1]);
  char said[4] = {};
  const ssize_t bytes = read(ends[0], said, 3);
  return (bytes == 3 ? said : "?") + (" " + std::to_string(end_of(child)));
}

ITM_PROGRAM(process_a_terminal_of_its_own, "1 3") {
  int master = -1;
  const pid_t child = forkpty(&master, nullptr, nullptr, nullptr);
  if (child == 0) _exit(isatty(STDOUT_FILENO) + 2);
  return std::to_string(isatty(master)) + " " + std::to_string(end_of(child));
}

// As allocators do it: addresses first, memory later, zero again when it is mapped anew.
ITM_PROGRAM(memory_parts_of_a_reservation, "0 5 0") {
  constexpr std::size_t kBytes = 1u << 20, kPart = 1u << 16;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  auto *const all = static_cast<char *>(mmap(nullptr, kBytes, PROT_NONE, kFlags, -1, 0));
  const auto map_part = [all] {
    return static_cast<long *>(
        mmap(all + kPart, kPart, PROT_READ | PROT_WRITE, kFlags | MAP_FIXED, -1, 0));
  };
  long *const part = map_part();
  std::string said = std::to_string(*part);
  std::thread([part] { *part = 5; }).join();
  said += " " + std::to_string(*part);
  return said + " " + std::to_string(*map_part());
}

ITM_PROGRAM(pages_refuse_larger_stacks, "1") {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64u << 20);
  pthread_t thread;
  return std::to_string(pthread_create(&thread, &attributes, wait_for_ever, nullptr) == EAGAIN);
}

ITM_PROGRAM(pages_kill_of_one_thread, "died 1 next 5") {
  std::atomic<int> pid{0};
  itm::Thread thread([&pid] {
    pid = static_cast<int>(syscall(SYS_getpid));
    return wait_for_ever(nullptr);
  });
  while (pid.load() == 0) sched_yield();
  kill(pid, SIGKILL);
  const bool is_dead = thread.join() == reinterpret_cast<void *>(-2L);
  itm::Thread next([] { return itm::as_result(5); });
  const long result = itm::as_number(next.join());
  return itm::say("died", is_dead, "next", result);
}

// The killed threads create and join all the time; others go on.
ITM_PROGRAM(pages_kills_of_creators, "40 of 40 then 5") {
  static std::atomic<int> pid{0}, joined{0};
  int died = 0;
  for (int i = 0; i < 40; ++i) {
    pid = 0;
    joined = 0;
    itm::Thread creator([]() -> void * {
      pid = static_cast<int>(syscall(SYS_getpid));
      for (;;) {
        itm::Thread child([] { return itm::as_result(1); });
        child.join();
        joined.fetch_add(1);
      }
      return nullptr;
    });
    while (pid.load() == 0 || joined.load() < i / 4) sched_yield();
    kill(pid, SIGKILL);
    if (creator.join() == reinterpret_cast<void *>(-2L)) ++died;
  }
  itm::Thread next([] { return itm::as_result(5); });
  const long result = itm::as_number(next.join());
  return itm::say(died, "of 40 then", result);
}
