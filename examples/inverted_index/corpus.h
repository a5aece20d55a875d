// examples/inverted_index/corpus.h -- finds the text files to index, in an order that depends on
// their paths only.
// Shape:     a list of documents, and a count of everything that was found and left out, by reason.
// Invariant: (1) the same tree and limits give the same list. (2) No file appears twice, whatever
//            links lead to it.
//            (3) documents hold at least one byte; `bytes` is the part to index and never grows
//                afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace inverted_index {

struct Document {
  std::string path;
  // To index: the file's size when it was found, or less for the last one under a limit.
  std::uint64_t bytes = 0;
  // Size when found; with mtime_ns it tells whether the file changed during the run.
  std::uint64_t file_bytes = 0;
  std::int64_t mtime_ns = 0;
};

// Found, and not indexed.
struct Skipped {
  std::uint64_t compressed = 0;  // .gz and its kin: to us they are binary
  std::uint64_t binary = 0;      // a zero byte near the beginning
  std::uint64_t empty = 0;
  std::uint64_t unreadable = 0;  // files and folders that the operating system does not let us read
  std::uint64_t special = 0;     // FIFOs, sockets, devices
  std::uint64_t links = 0;       // symbolic links to folders, to nothing, or in a loop
  std::uint64_t repeated = 0;    // another path of a file that is in the list already
  [[nodiscard]] std::uint64_t total() const noexcept {
    return compressed + binary + empty + unreadable + special + links + repeated;
  }
};

// 0: none.
struct Limits {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of all files together
  // Of each file found in a folder: longer ones are cut, so that many files get their turn.
  std::uint64_t file_bytes = 0;
};

struct Corpus {
  std::vector<Document> documents;
  Skipped skipped;
  std::uint64_t bytes = 0;
  std::uint64_t files_cut = 0;  // by Limits::file_bytes
  bool files_limit_reached = false;
  bool bytes_limit_reached = false;
};

enum class Length : std::uint8_t { kLimited, kWhole };

// A file, or a folder with everything below it.
struct Source {
  std::string path;
  std::string only_name;             // not empty: only files of that name
  Length length = Length::kLimited;  // kWhole: Limits::file_bytes does not apply
};

// What every Debian has: licences, word lists, copyright files, Perl's modules with their manual
// pages.
[[nodiscard]] std::vector<Source> default_sources();

// Collects from `sources` in order until a limit is reached. A missing source is an error (BadInput
// with one sentence) unless `missing_ok`. `poll` is called for every entry and may throw to stop.
enum class Missing : std::uint8_t { kRefuse, kSkip };
[[nodiscard]] Corpus collect(const std::vector<Source> &sources, Limits limits, Missing missing,
                             const std::function<void()> &poll);

// One sentence when a document is no longer the file that was found, else empty.
[[nodiscard]] std::string changed(const Document &document);

// "12 compressed, 3 binary"; empty when nothing was skipped.
[[nodiscard]] std::string describe(const Skipped &skipped);

}  // namespace inverted_index
