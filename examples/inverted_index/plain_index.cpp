// examples/inverted_index/plain_index.cpp -- what the shared index has to equal.
#include "examples/inverted_index/plain_index.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "examples/inverted_index/file.h"
#include "examples/inverted_index/words.h"

namespace inverted_index {
namespace {

class Comparer {
 public:
  Comparer(const PlainIndex &plain, const std::vector<Document> &documents)
      : plain_(plain), documents_(documents) {}

  Comparison run(const Index &index) {
    for (std::size_t s = 0; s < index.shards.size(); ++s) {
      for (const auto &[word, postings] : index.shards[s].words) {
        check(std::string_view(word), postings,
              s == shard_of(std::string_view(word), index.shards.size()));
      }
    }
    // Every word of the index was met once and is in the plain one, or is a difference already. Now
    // the other direction.
    for (const auto &expected : plain_) {
      const std::string &word = expected.first;
      const auto &map = index.shards[shard_of(word, index.shards.size())].words;
      if (map.find(std::string_view(word)) == map.end()) {
        differ([&] {
          return fmt::format("\"{}\": {} documents serially, missing in the index", word,
                             expected.second.size());
        });
      }
    }
    return std::move(result_);
  }

 private:
  void check(std::string_view word, const Postings &postings, bool right_shard) {
    ++result_.words;
    result_.postings += postings.size();
    for (const Posting &posting : postings) result_.occurrences += posting.count;
    if (!right_shard) differ([&] { return fmt::format("\"{}\": in the wrong shard", word); });
    const auto expected = plain_.find(word);
    if (expected == plain_.end()) {
      differ([&] {
        return fmt::format("\"{}\": in the index with {} documents, missing serially", word,
                           postings.size());
      });
    } else if (!std::equal(postings.begin(), postings.end(), expected->second.begin(),
                           expected->second.end())) {
      differ([&] { return first_difference(word, expected->second, postings); });
    }
  }

  std::string first_difference(std::string_view word, const std::vector<Posting> &expected,
                               const Postings &found) {
    const auto [e, f] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    const auto side = [&](bool there, const Posting *posting) {
      if (!there) return std::string("nothing more");
      const std::string path = posting->document < documents_.size()
                                   ? documents_[posting->document].path
                                   : "no such document";
      return fmt::format("{} times in {}", posting->count, path);
    };
    return fmt::format(
        "\"{}\" ({} documents serially, {} in the index): {} serially, {} in the index", word,
        expected.size(), found.size(),
        side(e != expected.end(), e != expected.end() ? &*e : nullptr),
        side(f != found.end(), f != found.end() ? &*f : nullptr));
  }

  template <class Sentence>
  void differ(Sentence &&sentence) {
    if (++result_.difference_count <= kDifferencesMax)
      result_.first_differences.push_back(sentence());
  }

  const PlainIndex &plain_;
  const std::vector<Document> &documents_;
  Comparison result_;
};

}  // namespace

PlainIndex build_plain(const std::vector<Document> &documents, const std::function<void()> &poll) {
  PlainIndex plain;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    poll();
    const Document &document = documents[d];
    const File file(document.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (!file)
      throw std::runtime_error(
          fmt::format("cannot open {}: {}", document.path, std::strerror(file.error())));
    const Read text = file.read_at(0, document.bytes);
    if (text.error != 0)
      throw std::runtime_error(
          fmt::format("cannot read {}: {}", document.path, std::strerror(text.error)));
    each_word(text.bytes, [&](std::string_view word) {
      auto at = plain.find(word);
      if (at == plain.end()) at = plain.emplace(std::string(word), std::vector<Posting>()).first;
      if (at->second.empty() || at->second.back().document != d)
        at->second.push_back({static_cast<std::uint32_t>(d), 0});
      ++at->second.back().count;
    });
    if (const std::string sentence = changed(document); !sentence.empty())
      throw std::runtime_error(sentence);
  }
  return plain;
}

Comparison compare(const Index &index, const PlainIndex &plain,
                   const std::vector<Document> &documents) {
  return Comparer(plain, documents).run(index);
}

}  // namespace inverted_index
