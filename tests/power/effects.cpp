// tests/power/effects.cpp -- encoding and replaying.
#include "tests/power/effects.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tmh::test::power {

RawShape raw_shape(std::uint32_t segment) {
  switch (segment) {
    case kLedger:
      return {"ledger", kLedgerPages, kLedgerPages};
    case kData:
      return {"data", kDataPages, kDataPagesMax};
    case kBig:
      return {"big", kBigPages, kBigPages};
    default:
      return {"late." + std::to_string(segment - kFirstLate), kLatePages, kLatePages};
  }
}

std::uint64_t filler(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t x = (seed ^ (index * 0x9e37'79b9'7f4a'7c15ull)) * 0xbf58'476d'1ce4'e5b9ull;
  return x ^ (x >> 29);
}

namespace {

template <class T>
void put(std::vector<std::byte> *out, const T *from, std::size_t count) {
  const std::size_t before = out->size();
  out->resize(before + count * sizeof(T));
  if (count != 0) std::memcpy(out->data() + before, from, count * sizeof(T));
}
template <class T>
void take(std::span<const std::byte> *in, T *to, std::size_t count) {
  if (in->size() < count * sizeof(T)) throw std::runtime_error("recorded effects are cut short");
  if (count != 0) std::memcpy(to, in->data(), count * sizeof(T));
  *in = in->subspan(count * sizeof(T));
}

}  // namespace

std::vector<std::byte> Effects::encode() const {
  std::vector<std::byte> out;
  const std::uint64_t head[] = {id, g, stores.size(), fills.size(), changes.size()};
  put(&out, head, 5);
  put(&out, stores.data(), stores.size());
  put(&out, fills.data(), fills.size());
  put(&out, changes.data(), changes.size());
  return out;
}

Effects Effects::decode(std::span<const std::byte> bytes) {
  std::uint64_t head[5];
  take(&bytes, head, 5);
  Effects effects;
  effects.id = head[0];
  effects.g = head[1];
  effects.stores.resize(head[2]);
  effects.fills.resize(head[3]);
  effects.changes.resize(head[4]);
  take(&bytes, effects.stores.data(), effects.stores.size());
  take(&bytes, effects.fills.data(), effects.fills.size());
  take(&bytes, effects.changes.data(), effects.changes.size());
  return effects;
}

Model::Model() {
  for (std::uint32_t segment = 0; segment < kRawSegments; ++segment)
    words_[segment].resize(raw_shape(segment).pages_max * kWordsPerPage);
}

void Model::apply(const Effects &effects) {
  words_[kLedger][0] = effects.g;
  words_[kLedger][kWordsPerPage + effects.g] = effects.id;
  for (const PageFill &fill : effects.fills) {
    const std::uint64_t end = (std::uint64_t{fill.first_page} + fill.pages) * kWordsPerPage;
    for (std::uint64_t word = fill.first_page * kWordsPerPage; word < end; ++word)
      words_[fill.segment].at(word) = filler(fill.seed, word);
  }
  for (const WordStore &store : effects.stores) words_[store.segment].at(store.word) = store.value;
  for (const ListChange &change : effects.changes) {
    auto &list = lists_[change.list];
    if (change.bytes != 0)
      list.push_back(change);
    else if (!list.empty())
      list.pop_front();
  }
}

}  // namespace tmh::test::power
