#include "bindings/python/src/map_object.h"

#include <new>
#include <utility>
#include <vector>

#include "bindings/python/src/codec.h"
#include "bindings/python/src/errors.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

using Record = trees::BytesRecord<field>;

constexpr const char *kCatalogue = "tmh.python";

void copy_value(const Record &record, std::string *to) {
  TMH_ASSERT(to != nullptr);
  to->resize(record.size());
  record.copy(to->data());
}

// What a call copies into: the thread's, so that a lookup allocates nothing. A call in the midst of
// another one, by code that Python runs there, has one of its own.
class Scratch {
 public:
  Scratch() noexcept : bytes(std::move(kept())) {}
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() { kept() = std::move(bytes); }

  std::string bytes;

 private:
  static std::string &kept() noexcept {
    thread_local std::string kept_here;
    return kept_here;
  }
};

[[noreturn]] void raise_key_error(PyObject *key) {
  TMH_ASSERT(key != nullptr);
  PyErr_SetObject(PyExc_KeyError, key);
  throw ErrorIsSet{};
}

}  // namespace

std::uintptr_t make_tree(DomainCore &core, const std::string &file) {
  require_update(core, "making a dict");
  const Segment segment = core.segment(file)->segment;
  need_plain();
  static_assert(alignof(Tree) <= kLineBytes);
  void *const memory = segment.allocate(sizeof(Tree), kLineBytes);
  TMH_ASSERT(memory != nullptr);
  return reinterpret_cast<std::uintptr_t>(::new (memory) Tree(pool_allocator<std::byte>(segment)));
}

MapObject::MapObject(nb::object core, const std::string &file,
                     std::optional<std::uintptr_t> address, bool pickles)
    : core_(std::move(core)),
      segment_(this->core().segment(file)),
      pickles_(pickles),
      site_("python." + file) {
  // Now: a query cannot make it.
  const std::uintptr_t at = address ? *address : catalogue();
  segment_->require_inside(at, sizeof(Tree), file);
  tree_ = reinterpret_cast<Tree *>(at);
}

std::uintptr_t MapObject::catalogue() {
  const Segment held = segment_->segment;  // another thread may unmap it meanwhile
  // An instance of its own, unless one runs here.
  const Unlocked others(running().core == nullptr);
  return reinterpret_cast<std::uintptr_t>(held.root<Tree>(kCatalogue));
}

template <class Body>
auto MapObject::run(Kind kind, Body &&body) {
  TMH_ASSERT(tree_ != nullptr);
  (void)core().domain();  // open, in a forked child too
  return run_own(core(), site_, kind, [&] {
    segment_->require_mapped("the dict");
    return body(*tree_);
  });
}

Owned MapObject::get(PyObject *key, PyObject *missing) {
  const std::string bytes = encode_key(key);
  Scratch scratch;
  std::string &value = scratch.bytes;
  const bool is_there = run(Kind::kQuery, [&](Tree &tree) {
    const Record *const record = tree.find(bytes);
    if (record == nullptr) return false;
    copy_value(*record, &value);
    return true;
  });
  if (is_there) return decode_value(value, pickles_);
  if (missing == nullptr) raise_key_error(key);
  return Owned::share(missing);
}

void MapObject::set(PyObject *key, PyObject *value) {
  const std::string key_bytes = encode_key(key), value_bytes = encode_value(value, pickles_);
  (void)run(Kind::kUpdate, [&](Tree &tree) { return tree.assign(key_bytes, value_bytes); });
}

void MapObject::erase(PyObject *key) {
  const std::string bytes = encode_key(key);
  if (!run(Kind::kUpdate, [&](Tree &tree) { return tree.erase(bytes); })) raise_key_error(key);
}

Owned MapObject::pop(PyObject *key, PyObject *missing) {
  const std::string bytes = encode_key(key);
  Scratch scratch;
  std::string &value = scratch.bytes;
  const bool was_there = run(Kind::kUpdate, [&](Tree &tree) {
    const Record *const record = tree.find(bytes);
    if (record == nullptr) return false;
    copy_value(*record, &value);
    return tree.erase(bytes);
  });
  if (was_there) return decode_value(value, pickles_);
  if (missing == nullptr) raise_key_error(key);
  return Owned::share(missing);
}

Owned MapObject::set_default(PyObject *key, PyObject *value) {
  const std::string key_bytes = encode_key(key), value_bytes = encode_value(value, pickles_);
  Scratch scratch;
  std::string &found = scratch.bytes;
  const bool was_there = run(Kind::kUpdate, [&](Tree &tree) {
    const Record *const record = tree.find(key_bytes);
    if (record == nullptr) return !tree.insert(key_bytes, value_bytes);
    copy_value(*record, &found);
    return true;
  });
  return was_there ? decode_value(found, pickles_) : Owned::share(value);
}

bool MapObject::contains(PyObject *key) {
  const std::string bytes = encode_key(key);
  return run(Kind::kQuery, [&](Tree &tree) { return tree.find(bytes) != nullptr; });
}

std::size_t MapObject::size() {
  return run(Kind::kQuery, [](Tree &tree) { return tree.size(); });
}

void MapObject::clear() {
  run(Kind::kUpdate, [](Tree &tree) {
    tree.clear();
    return 0;
  });
}

Owned MapObject::scan(const Range &range, bool with_values) {
  std::optional<std::string> first, last;
  if (range.first) first = encode_key(range.first.get());
  if (range.last) last = encode_key(range.last.get());
  struct Found {
    std::string key, value;
  };
  std::vector<Found> found;
  run(Kind::kQuery, [&](Tree &tree) {
    found.clear();
    const auto take = [&](const Record &record) {
      found.push_back({record.key(), with_values ? record.value() : std::string()});
      return range.limit == 0 || found.size() < range.limit;
    };
    if (first && last && *last < *first) return 0;
    if (range.is_backward) {
      auto at = last ? tree.before(*last) : tree.last();
      const bool takes_last = last && range.has_last && (range.has_first || first != last);
      if (takes_last)
        if (const Record *const bound = tree.find(*last); bound != nullptr && !take(*bound))
          return 0;
      for (; at != tree.end(); at = tree.before(found.back().key)) {
        const std::string key = (*at).key();
        if (first && (range.has_first ? key < *first : key <= *first)) break;
        if (!take(*at)) break;
      }
      return 0;
    }
    for (auto at = first ? tree.lower_bound(*first) : tree.begin(); at != tree.end(); ++at) {
      const std::string key = (*at).key();
      if (first && !range.has_first && key == *first) continue;
      if (last && (range.has_last ? key > *last : key >= *last)) break;
      if (!take(*at)) break;
    }
    return 0;
  });
  TMH_ASSERT(range.limit == 0 || found.size() <= range.limit);
  Owned list = Owned::checked(PyList_New(static_cast<Py_ssize_t>(found.size())));
  for (std::size_t i = 0; i < found.size(); ++i) {
    Owned item = decode_key(found[i].key);
    if (with_values) {
      const Owned value = decode_value(found[i].value, pickles_);
      item = Owned::checked(PyTuple_Pack(2, item.get(), value.get()));
    }
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return list;
}

}  // namespace tmh::python
