// tests/tools/old_files/make_old_files.cpp -- makes the folders of old_files_test: durable files as
// this version of tmh writes them, with the values that every later version has to find in them.
// Usage:     make_old_files NEW_FOLDER; the README beside it says what to do with what it makes.
//            Public headers only, so that it compiles against earlier versions.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPages = 160, kPagesAtFirst = 150, kWords = 512;

tmh::DomainOptions options_of(bool has_lines) {
  tmh::DomainOptions options;
  options.durability = tmh::Durability::kStrict;
  options.levels = has_lines ? tmh::Levels::kHybrid : tmh::Levels::kPage;
  options.log_file_bytes = 1u << 20;
  options.keep_log = true;
  return options;
}

// The words of "raw", in the domain and beside it.
class Story {
 public:
  Story(const std::string &folder, bool has_lines, std::uint64_t seed)
      : has_lines_(has_lines),
        domain_(tmh::Domain::open(folder, options_of(has_lines))),
        site_(domain_, "stores"),
        random_(seed) {
    tmh::SegmentOptions raw;
    raw.layout = tmh::Layout::kRaw;
    raw.size_bytes = kPagesAtFirst * 4096;
    raw.max_bytes = kPages * 4096;
    segment_ = domain_.map("raw", raw);
    heap_ = domain_.map("heap", tmh::SegmentOptions{});
    words_.resize(kPages * kWords);
    const std::uint64_t there = segment_.size_bytes() / 8;
    tmh::query(domain_, [&] {
      for (std::uint64_t i = 0; i < there; ++i) words_[i] = base()[i];
    });
  }
  [[nodiscard]] const tmh::Domain &domain() const { return domain_; }
  [[nodiscard]] const std::vector<std::uint64_t> &words() const { return words_; }

  void commit(int count) {
    for (int i = 0; i < count; ++i) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> stores(1 + random_() % 12);
      for (auto &[at, value] : stores) {
        at = random_() % (segment_.size_bytes() / 8);
        value = random_() % 10;
      }
      store(stores);
    }
  }
  // More than one record holds.
  void commit_wide() {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> stores;
    const std::uint64_t value = random_();
    for (std::uint64_t at = 0; at < 140 * kWords; ++at)
      stores.emplace_back(at, value + at / kWords);
    tmh::atomically(domain_, [&] { put(stores); });
    for (const auto &[at, value] : stores) words_[at] = value;
  }
  void allocate(int count) {
    for (int i = 0; i < count; ++i)
      tmh::atomically(domain_, [&] {
        auto *const block = static_cast<std::uint64_t *>(heap_.allocate(64));
        *block = static_cast<std::uint64_t>(i);
      });
  }
  void grow() { segment_.grow(kPages * 4096); }
  void close() { domain_.close(); }

 private:
  [[nodiscard]] std::uint64_t *base() const {
    return reinterpret_cast<std::uint64_t *>(segment_.data());
  }
  void put(const std::vector<std::pair<std::uint64_t, std::uint64_t>> &stores) const {
    for (const auto &[at, value] : stores) base()[at] = value;
  }
  void store(const std::vector<std::pair<std::uint64_t, std::uint64_t>> &stores) {
    if (has_lines_ && random_() % 2 == 0)
      tmh::atomically(site_, [&](tmh::Fields) {
        for (const auto &[at, value] : stores)
          reinterpret_cast<tmh::field<std::uint64_t> &>(base()[at]) = value;
      });
    else
      tmh::atomically(domain_, [&] { put(stores); });
    for (const auto &[at, value] : stores) words_[at] = value;
  }

  const bool has_lines_;
  tmh::Domain domain_;
  tmh::Site site_;
  tmh::Segment segment_, heap_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> words_;
};

void write(const fs::path &path, const std::vector<std::uint64_t> &words) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(words.data()),
             static_cast<std::streamsize>(8 * words.size()));
  if (!file.flush()) throw std::runtime_error(path);
}

void in_child(bool is_killed, const std::function<void()> &body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (is_killed ? !WIFSIGNALED(status) : status != 0) throw std::runtime_error("a child failed");
}

// As a copy of the durable files, or a machine that starts again, finds the folder.
void keep_durable_files(const fs::path &folder) {
  const auto is_durable = [](const std::string &name) {
    for (const std::string_view kept :
         {"tmh.control", "tmh.checkpoint", "tmh.moments", "tmh.checksums"})
      if (name == kept) return true;
    return name.starts_with("tmh.log.0") || !name.starts_with("tmh.");
  };
  std::vector<fs::path> others;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (!is_durable(entry.path().filename())) others.push_back(entry.path());
  for (const fs::path &other : others) fs::remove(other);
}

void make(const fs::path &to, const std::string &name, bool has_lines, bool is_killed) {
  const std::string folder = to / name;
  in_child(false, [&] {  // the generation before
    Story story(folder, has_lines, 1);
    story.commit(60);
    story.allocate(20);
    story.domain().checkpoint();
    story.commit_wide();
    story.commit(60);
    story.close();
  });
  in_child(is_killed, [&] {
    Story story(folder, has_lines, 2);
    story.commit(20);
    story.domain().backup(to / (name + ".backup"));
    story.grow();
    story.commit(60);
    if (!has_lines) {
      (void)story.domain().keep("named");
      write(to / (name + ".named"), story.words());
    }
    story.commit(60);
    story.allocate(20);
    for (int i = 0; i < 3; ++i) story.commit_wide();
    for (int i = 0; i < 2; ++i) {
      story.domain().archive(to / (name + ".archive"));
      story.commit_wide();
      story.commit(60);
    }
    write(to / (name + ".end"), story.words());
    if (is_killed) std::raise(SIGKILL);
    story.close();
  });
  keep_durable_files(folder);
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc != 2) throw std::runtime_error("usage: make_old_files NEW_FOLDER");
  const fs::path to = argv[1];
  if (!fs::create_directory(to)) throw std::runtime_error(to.string() + " exists");
  for (const bool has_lines : {false, true})
    for (const bool is_killed : {false, true})
      make(to, std::string(has_lines ? "both" : "pages") + (is_killed ? "-killed" : "-closed"),
           has_lines, is_killed);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "make_old_files: %s\n", error.what());
  return 1;
}
