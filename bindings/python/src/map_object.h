// bindings/python/src/map_object.h -- the ordered map behind tmh.Dict, tmh.Queue and a segment's
// catalogue: bytes to bytes in a B+-tree of fields, with Python's keys and values outside of it.
// Shape:     inside an instance a call is part of it; outside it is an instance of its own, which
//            runs no Python code.
// Errors:    ErrorIsSet: KeyError, TypeError, ...; tmh::Error. A call that raises has changed
//            nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <tmh/pool.hpp>
#include <tmh/trees/bptree.hpp>

#include "bindings/python/src/domain_core.h"
#include "bindings/python/src/instance.h"
#include "bindings/python/src/python.h"

namespace tmh::python {

using Tree = trees::BytesTree<pool_allocator<std::byte>, field>;

// REQUIRES an update in this thread. An empty tree in the segment; returns its address.
[[nodiscard]] std::uintptr_t make_tree(DomainCore &core, const std::string &file);

// Which records, in which order.
struct Range {
  Owned first, last;                       // null: no bound
  bool has_first = true, has_last = true;  // is the bound itself inside?
  std::size_t limit = 0;                   // 0: all
  bool is_backward = false;
};

class MapObject {
 public:
  // address: of make_tree(); none: the segment's catalogue, which the first process makes.
  MapObject(nb::object core, const std::string &file, std::optional<std::uintptr_t> address,
            bool pickles);

  // missing: returned where the key is not there; null raises KeyError.
  [[nodiscard]] Owned get(PyObject *key, PyObject *missing);
  void set(PyObject *key, PyObject *value);
  void erase(PyObject *key);
  // As get(), and erases.
  [[nodiscard]] Owned pop(PyObject *key, PyObject *missing);
  [[nodiscard]] Owned set_default(PyObject *key, PyObject *value);
  [[nodiscard]] bool contains(PyObject *key);
  [[nodiscard]] std::size_t size();
  void clear();
  // A list of keys, or of pairs of a key and a value. One snapshot.
  [[nodiscard]] Owned scan(const Range &range, bool with_values);

 private:
  [[nodiscard]] DomainCore &core() const noexcept { return *nb::inst_ptr<DomainCore>(core_); }
  [[nodiscard]] std::uintptr_t catalogue();
  template <class Body>
  auto run(Kind kind, Body &&body);

  nb::object core_;
  std::shared_ptr<MappedSegment> segment_;
  Tree *tree_ = nullptr;
  bool pickles_;
  SiteOf site_;
};

}  // namespace tmh::python
