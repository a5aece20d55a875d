// examples/condition_wait.cpp -- waiting for a condition by tmh::retry(): a mailbox of one letter
// between two processes, without locks or polls.
// Invariant: every letter arrives once, in order: the body that finds the mailbox in the wrong
//            state is undone, and runs again when something that it has read has changed.
// Run:       condition_wait [folder], default ./condition_wait.domain.
#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>

namespace {

constexpr int kLetters = 1000;

struct Mailbox {
  int letter;  // 0: empty
};

void send_all(const tmh::Domain &domain, Mailbox &box) {
  for (int i = 1; i <= kLetters; ++i) {
    tmh::atomically(domain, [&] {
      if (box.letter != 0) tmh::retry();  // full: sleeps until the other process has emptied it
      box.letter = i;
    });
  }
}

int receive_all(const tmh::Domain &domain, Mailbox &box) {
  int last = 0;
  while (last < kLetters) {
    const int letter = tmh::atomically(domain, [&] {
      if (box.letter == 0) tmh::retry();  // empty
      const int taken = box.letter;
      box.letter = 0;
      return taken;
    });
    if (letter != last + 1) return 1;
    last = letter;
  }
  return 0;
}

int work(const char *folder, bool sends) {
  try {
    const tmh::Domain domain = tmh::Domain::open(folder);
    Mailbox &box = *domain.map("mailbox").root<Mailbox>();
    if (!sends) return receive_all(domain, box);
    send_all(domain, box);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "condition_wait.domain";
  const pid_t sender = fork();  // before the domain is opened: it is not passed on to children
  if (sender == 0) _exit(work(folder, true));
  int failed = work(folder, false), status = 0;
  if (waitpid(sender, &status, 0) != sender || status != 0) failed = 1;
  if (failed == 0) std::printf("%d letters, in order\n", kLetters);
  return failed;
}
