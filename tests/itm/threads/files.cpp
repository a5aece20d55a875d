// tests/itm/threads/files.cpp -- standard streams and files, used by several threads.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/itm/program.h"

namespace {

template <class Work>
void in_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread &each : threads) each.join();
}

// stdout goes to a file while it lives. Of /tmp: the kernel does not lock the position of a memfd.
class Captured {
 public:
  Captured() {
    std::fflush(stdout);
    before_ = dup(STDOUT_FILENO);
    char name[] = "/tmp/tmh-threads-XXXXXX";
    file_ = mkstemp(name);
    unlink(name);
    dup2(file_, STDOUT_FILENO);
  }
  Captured(const Captured &) = delete;
  Captured &operator=(const Captured &) = delete;
  ~Captured() {
    close(file_);
    close(before_);
  }
  // Its lines, and stdout is as it was.
  std::vector<std::string> lines() {
    std::fflush(stdout);
    std::cout.flush();
    dup2(before_, STDOUT_FILENO);
    std::string text(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
    if (pread(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return {};
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      all.push_back(text.substr(at, end - at));
      if (end == std::string::npos) break;
      at = end + 1;
    }
    return all;
  }

 private:
  int before_ = -1, file_ = -1;
};

std::string judge(const std::vector<std::string> &lines) {
  std::size_t well = 0;
  for (const std::string &each : lines) {
    int thread = 0, line = 0, length = 0;
    if (std::sscanf(each.c_str(), "thread %d line %d of this program%n", &thread, &line, &length) ==
            2 &&
        static_cast<std::size_t>(length) == each.size())
      ++well;
  }
  const std::set<std::string> distinct(lines.begin(), lines.end());
  return itm::say(lines.size(), distinct.size(), well);
}

}  // namespace

ITM_PROGRAM(files_printf_from_many_threads, "4001 4001 4000") {
  Captured captured;
  std::printf("begun without an end ");
  std::printf("until here\n");
  in_threads(8, [](int thread) {
    for (int i = 0; i < 500; ++i) std::printf("thread %d line %d of this program\n", thread, i);
  });
  return judge(captured.lines());
}

ITM_PROGRAM(files_what_main_has_printed_comes_once, "2 2 1") {
  Captured captured;
  std::printf("thread 0 line 0 of this program\nhalf a line");
  in_threads(3, [](int) {});
  return judge(captured.lines());
}

ITM_PROGRAM(files_cout_from_many_threads, "800 800 800") {
  Captured captured;
  in_threads(8, [](int thread) {
    for (int i = 0; i < 100; ++i)
      std::cout << "thread " + std::to_string(thread) + " line " + std::to_string(i) +
                       " of this program\n";
  });
  return judge(captured.lines());
}

ITM_PROGRAM(files_cout_without_stdio, "800 800 800") {
  Captured captured;
  std::ios_base::sync_with_stdio(false);
  static std::mutex mutex;
  in_threads(8, [](int thread) {
    for (int i = 0; i < 100; ++i) {
      const std::lock_guard held(mutex);
      std::cout << "thread " << thread << " line " << i << " of this program\n";
    }
  });
  return judge(captured.lines());
}

ITM_PROGRAM(files_opened_in_one_thread_read_in_another, "hello from a thread 5") {
  int file = -1;
  std::thread opener([&file] {
    file = memfd_create("opened", 0);
    if (write(file, "hello from a thread", 19) != 19) file = -1;
  });
  opener.join();
  std::string text(19, '\0');
  ssize_t got = 0;
  std::thread reader([&] {
    got = pread(file, text.data(), text.size(), 0);
    lseek(file, 5, SEEK_SET);
  });
  reader.join();
  return got == 19 ? itm::say(text, lseek(file, 0, SEEK_CUR)) : "?";
}

ITM_PROGRAM(files_a_pipe_between_threads, "1000") {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "pipe";
  std::thread writer([&ends] {
    for (char each = 0; each < 100; ++each) {
      const std::vector<char> part(10, each);
      if (write(ends[1], part.data(), part.size()) != 10) return;
    }
    close(ends[1]);
  });
  std::vector<char> all(1000);
  std::size_t got = 0;
  for (ssize_t each = 1; each > 0;) {
    each = read(ends[0], all.data() + got, 1);
    if (each > 0) got += static_cast<std::size_t>(each);
    if (got == all.size()) break;
  }
  writer.join();
  close(ends[0]);
  return itm::say(got);
}

ITM_PROGRAM(files_a_stream_used_by_many_threads, "800 800 800") {
  char name[] = "/tmp/tmh-threads-XXXXXX";
  const int file = mkstemp(name);
  std::FILE *const stream = fdopen(file, "w");
  in_threads(8, [stream](int thread) {
    for (int i = 0; i < 100; ++i)
      std::fprintf(stream, "thread %d line %d of this program\n", thread, i);
  });
  std::fclose(stream);
  std::vector<std::string> lines;
  std::ifstream in(name);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  unlink(name);
  return judge(lines);
}

ITM_PROGRAM(files_a_stream_that_a_thread_has_opened, "written by the thread") {
  char name[] = "/tmp/tmh-threads-XXXXXX";
  close(mkstemp(name));
  std::FILE *stream = nullptr;
  std::thread opener([&] {
    stream = std::fopen(name, "w+");
    std::fputs("written by the thread\n", stream);
  });
  opener.join();
  std::rewind(stream);
  char line[64] = {};
  if (std::fgets(line, sizeof line, stream) == nullptr) return "?";
  std::fclose(stream);
  unlink(name);
  return std::string(line, std::strlen(line) - 1);
}
