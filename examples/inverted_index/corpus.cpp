// examples/inverted_index/corpus.cpp -- walks folders and tells text from everything else.
#include "examples/inverted_index/corpus.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "examples/inverted_index/bad_input.h"
#include "examples/inverted_index/file.h"

namespace inverted_index {
namespace {

namespace fs = std::filesystem;

// Enough to meet a zero byte in every format we know (tar, ELF, images, databases), and one read of
// two pages.
constexpr std::size_t kProbeBytes = 8192;

constexpr std::string_view kCompressedEndings[] = {".gz",   ".xz", ".bz2", ".zst",
                                                   ".lzma", ".Z",  ".zip"};

bool has_compressed_ending(std::string_view path) {
  return std::any_of(std::begin(kCompressedEndings), std::end(kCompressedEndings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

std::int64_t mtime_ns(const struct stat &status) {
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

class Collector {
 public:
  Collector(Limits limits, const std::function<void()> &poll) : limits_(limits), poll_(poll) {}

  void add_source(const Source &source) {
    only_name_ = source.only_name;
    length_ = source.length;
    struct stat status {};
    // The source itself may be a link: whoever names it means what it leads to.
    if (::stat(source.path.c_str(), &status) != 0) {
      throw BadInput(fmt::format("cannot read {}: {}", source.path, std::strerror(errno)));
    }
    if (S_ISDIR(status.st_mode)) {
      if (const int error = folder(source.path); error != 0) {
        throw BadInput(
            fmt::format("cannot read the folder {}: {}", source.path, std::strerror(error)));
      }
    } else {
      length_ = Length::kWhole;  // a file that somebody names is wanted as it is
      file(source.path);
    }
  }

  [[nodiscard]] bool full() const noexcept {
    return corpus_.files_limit_reached || corpus_.bytes_limit_reached;
  }
  [[nodiscard]] Corpus take() && { return std::move(corpus_); }

 private:
  // Returns an errno value when the folder cannot be read at all.
  int folder(const std::string &path) {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) {
      ++corpus_.skipped.unreadable;
      return error.value();
    }
    std::sort(names.begin(), names.end());  // the order on disk differs from machine to machine
    for (const std::string &name : names) {
      if (full()) break;
      poll_();
      entry((fs::path(path) / name).string(), name);
    }
    return 0;
  }

  void entry(const std::string &path, const std::string &name) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      ++corpus_.skipped.unreadable;
    } else if (S_ISDIR(status.st_mode)) {
      (void)folder(path);
    } else if (!only_name_.empty() && name != only_name_) {
      // Not what this source is about: neither indexed nor skipped.
    } else if (S_ISLNK(status.st_mode)) {
      // A link to a file counts as that file. Links to folders are not followed: the walk then ends
      // whatever they point at, and a loop of links is only a link that leads nowhere.
      if (::stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) {
        ++corpus_.skipped.links;
      } else {
        file(path);
      }
    } else {
      file(path);
    }
  }

  void file(const std::string &path) {
    // O_NONBLOCK: opening a FIFO for reading would otherwise wait for its writer.
    const File opened(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status {};
    if (!opened) {
      // A socket cannot be opened at all (ENXIO); everything else that fails here is a matter of
      // permission.
      ++(opened.error() == ENXIO ? corpus_.skipped.special : corpus_.skipped.unreadable);
      return;
    }
    if (::fstat(opened.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) {
      ++corpus_.skipped.special;
      return;
    }
    if (status.st_size == 0) {
      ++corpus_.skipped.empty;
      return;
    }
    // The endings are judged on the name alone: a compressed file is not read only to be thrown
    // away.
    if (has_compressed_ending(path)) {
      ++corpus_.skipped.compressed;
      return;
    }
    const Read probe = opened.read_at(0, kProbeBytes);
    if (probe.error != 0) {
      ++corpus_.skipped.unreadable;
    } else if (probe.bytes.find('\0') != std::string::npos) {
      ++corpus_.skipped.binary;
    } else if (!seen_.emplace(status.st_dev, status.st_ino).second) {
      ++corpus_.skipped.repeated;
    } else {
      add({path, static_cast<std::uint64_t>(status.st_size),
           static_cast<std::uint64_t>(status.st_size), mtime_ns(status)});
    }
  }

  void add(Document document) {
    // Limits are checked when there is one more document to leave out: exactly at the limit nothing
    // is lost.
    if (limits_.files != 0 && corpus_.documents.size() >= limits_.files) {
      corpus_.files_limit_reached = true;
      return;
    }
    if (limits_.file_bytes != 0 && length_ == Length::kLimited &&
        document.bytes > limits_.file_bytes) {
      document.bytes = limits_.file_bytes;
      ++corpus_.files_cut;
    }
    if (limits_.bytes != 0 && corpus_.bytes + document.bytes > limits_.bytes) {
      corpus_.bytes_limit_reached = true;
      // The last one is cut, so that one huge file still gives input.
      document.bytes = limits_.bytes - corpus_.bytes;
      if (document.bytes == 0) return;
    }
    corpus_.bytes += document.bytes;
    corpus_.documents.push_back(std::move(document));
  }

  Limits limits_;
  const std::function<void()> &poll_;
  std::string only_name_;
  Length length_ = Length::kLimited;
  std::set<std::pair<dev_t, ino_t>> seen_;
  Corpus corpus_;
};

}  // namespace

std::vector<Source> default_sources() {
  return {{"/usr/share/common-licenses", "", Length::kWhole},
          {"/usr/share/dict", "", Length::kWhole},
          {"/usr/share/doc", "copyright", Length::kLimited},
          {"/usr/share/perl", "", Length::kLimited}};
}

Corpus collect(const std::vector<Source> &sources, Limits limits, Missing missing,
               const std::function<void()> &poll) {
  Collector collector(limits, poll);
  for (const Source &source : sources) {
    if (collector.full()) break;
    if (missing == Missing::kSkip && !fs::exists(source.path)) continue;
    collector.add_source(source);
  }
  return std::move(collector).take();
}

std::string changed(const Document &document) {
  struct stat status {};
  if (::stat(document.path.c_str(), &status) != 0) {
    return fmt::format("{} vanished during the run: {}", document.path, std::strerror(errno));
  }
  if (static_cast<std::uint64_t>(status.st_size) != document.file_bytes ||
      mtime_ns(status) != document.mtime_ns) {
    return fmt::format("{} was written to during the run, so there is nothing to compare with",
                       document.path);
  }
  return {};
}

std::string describe(const Skipped &skipped) {
  std::string text;
  const auto part = [&](std::uint64_t count, std::string_view what) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  part(skipped.compressed, "compressed");
  part(skipped.binary, "binary");
  part(skipped.empty, "empty");
  part(skipped.unreadable, "unreadable");
  part(skipped.special, "not files (FIFO, socket, device)");
  part(skipped.links, "links to folders or to nothing");
  part(skipped.repeated, "other paths of files already listed");
  return text;
}

}  // namespace inverted_index
