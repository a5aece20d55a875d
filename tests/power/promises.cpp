// tests/power/promises.cpp -- reading notes.
#include "tests/power/promises.h"

#include <algorithm>
#include <cstring>

namespace tmh::test::power {

namespace {

std::uint64_t id_in(const Entry &entry) {
  std::uint64_t id = 0;
  if (entry.data.size() >= sizeof id) std::memcpy(&id, entry.data.data(), sizeof id);
  return id;
}

std::string name_of(std::uint64_t id) {
  return std::to_string(id >> 40) + "/" + std::to_string(id & ((1ull << 40) - 1));
}

}  // namespace

std::vector<std::uint64_t> ids_of(const Entry &entry) {
  std::vector<std::uint64_t> ids(entry.data.size() / sizeof(std::uint64_t));
  if (!ids.empty()) std::memcpy(ids.data(), entry.data.data(), ids.size() * sizeof(std::uint64_t));
  return ids;
}

void Promises::apply(const Entry &entry) {
  if (!entry.is_note()) return;
  const std::uint64_t g = entry.offset;
  const std::uint64_t id = id_in(entry);
  switch (entry.note()) {
    case Note::kIntent:
      intents_[id] = entry.data;
      break;
    case Note::kStrictAck:
    case Note::kBufferedAck: {
      const auto [at, is_new] = told_.emplace(g, id);
      if (!is_new && at->second != id)
        contradiction_ = "two transactions were told that they are commit " + std::to_string(g);
      if (entry.note() == Note::kStrictAck) required_ = std::max(required_, g);
      break;
    }
    case Note::kAborted:
      aborted_.insert(id);
      break;
    case Note::kDurableUpTo:
      required_ = std::max(required_, g);
      break;
    case Note::kRecovered: {
      const std::vector<std::uint64_t> ids = ids_of(entry);
      // Buffered ones that were lost: their places are given again.
      told_.erase(told_.upper_bound(g), told_.end());
      for (std::uint64_t i = 0; i < ids.size(); ++i) told_[i + 1] = ids[i];
      required_ = std::max(required_, g);
      break;
    }
    case Note::kDied:
    case Note::kFolder:
    case Note::kDone:
    case Note::kNotDone:
      break;
  }
}

void Promises::foresee(const std::vector<std::uint64_t> &ids) { foreseen_ = ids; }

std::uint64_t Promises::id_at(std::uint64_t g) const {
  if (const auto told = told_.find(g); told != told_.end()) return told->second;
  return g >= 1 && g <= foreseen_.size() ? foreseen_[g - 1] : 0;
}

std::string Promises::explain(std::uint64_t g, std::uint64_t id, Effects *effects) const {
  const std::string what = "commit " + std::to_string(g) + " is transaction " + name_of(id);
  const auto told = told_.find(g);
  if (told != told_.end() && told->second != id)
    return what + ", but " + name_of(told->second) + " was told so";
  const auto intent = intents_.find(id);
  if (intent == intents_.end()) return what + ", which nobody had begun";
  if (aborted_.contains(id)) return what + ", which was told that it is aborted";
  *effects = Effects::decode(intent->second);
  if (effects->g != g) return what + ", which is another one's place";
  return "";
}

void Promises::advance(Model *model) const {
  while (model->g() < required_) {
    const std::uint64_t id = id_at(model->g() + 1);
    const auto intent = intents_.find(id);
    if (id == 0 || intent == intents_.end()) return;
    model->apply(Effects::decode(intent->second));
  }
}

}  // namespace tmh::test::power
