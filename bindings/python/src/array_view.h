// bindings/python/src/array_view.h -- tmh.Array: an array in a segment, as Python sees it.
// Shape:     address, dtype, shape and strides, kept as a numpy array over the memory: the
//            geometry, which no Python code gets.
//            - One number of 1, 2, 4 or 8 bytes is loaded and stored through tmh::field, so it is
//              right at every level.
//            - A part (slices, fields) is another tmh.Array. No memory is touched for it.
//            - All other accesses are numpy's, on a raw array that is lent to the attempt, after
//              need_plain(). Where something still holds it, or a view of it, when the body ends,
//              the instance does not commit.
// Outside:   an access outside an instance raises, or is a query of its own (reads only, by
//            choice at Domain.map()). It then gives a copy.
// Sharing:   the GIL's.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/python/src/domain_core.h"
#include "bindings/python/src/python.h"
#include "platform/assert.h"

namespace tmh::python {

// What all parts of an array have in common.
struct Origin {
  nb::object core;
  std::shared_ptr<MappedSegment> segment;
  std::string name;
  bool reads_outside = false;

  [[nodiscard]] DomainCore &domain_core() const noexcept {
    TMH_ASSERT(core.is_valid());
    return *nb::inst_ptr<DomainCore>(core);
  }
};

// What a numpy array over a segment's memory hangs on.
struct RawOwner {
  std::shared_ptr<const Origin> origin;
  // It is the array of a part that is none to store to.
  const bool is_read_only;
  bool is_escaped = false;
  // Where what the program holds of it lies since its instance has ended (raw_views.h).
  std::shared_ptr<const void> frozen;

  RawOwner(std::shared_ptr<const Origin> of, bool is_read_only) noexcept
      : origin(std::move(of)), is_read_only(is_read_only) {
    TMH_ASSERT(origin != nullptr);
  }
  RawOwner(const RawOwner &) = delete;
  RawOwner &operator=(const RawOwner &) = delete;
  ~RawOwner();
  // The array outlives the attempt that it was lent to: its memory stays mapped.
  void escape() noexcept;
};

class ArrayView {
 public:
  // geometry: any numpy array of this shape, strides and dtype at `data`.
  ArrayView(std::shared_ptr<const Origin> origin, char *data, PyArrayObject *geometry,
            bool is_read_only = false);
  ArrayView(ArrayView &&other) noexcept;
  ArrayView(const ArrayView &) = delete;
  ArrayView &operator=(const ArrayView &) = delete;
  ~ArrayView();

  // REQUIRES: an object of the type, or of one that derives from it. Throws TypeError where it has
  // not been made.
  [[nodiscard]] static ArrayView &of(PyObject *object);
  [[nodiscard]] static bool is_one(PyObject *object) noexcept;
  // The class of parts: tmh.Array. Owned for ever.
  static void set_class(nb::object type);

  // A whole array. Throws ErrorIsSet.
  [[nodiscard]] static Owned make(std::shared_ptr<const Origin> origin, std::uintptr_t address,
                                  PyObject *dtype, PyObject *shape);

  [[nodiscard]] Owned get(PyObject *key);
  void set(PyObject *key, PyObject *value);
  // The raw array, for the running attempt; outside a copy of the newest snapshot, if it may be.
  [[nodiscard]] Owned raw(bool for_update);
  // Borrowed. Its memory is not accessed.
  [[nodiscard]] PyObject *geometry() const noexcept {
    return reinterpret_cast<PyObject *>(geometry_);
  }

  // The part of an array that a numpy array shows. Null: it shows other memory.
  [[nodiscard]] static Owned part_shown_by(PyObject *view);

  [[nodiscard]] const std::string &name() const noexcept { return origin_->name; }

 private:
  [[nodiscard]] DomainCore &core() const noexcept { return *core_; }
  [[nodiscard]] bool is_inside() const noexcept;
  // The domain is open, in a forked child too, and the segment mapped.
  void require_mapped() const;
  void require_readable() const;
  void require_storable() const;
  // As an object of Python.
  [[nodiscard]] static Owned wrapped(ArrayView &&view);
  // A numpy array over data_.
  [[nodiscard]] Owned make_raw(PyArrayObject *geometry) const;
  [[nodiscard]] Owned part(PyObject *key);
  [[nodiscard]] Owned load(const char *at);
  // Of numpy's two ways to store: `a[1] = value`, and `a[...] = value`, `a["field"] = value`.
  enum class As : std::uint8_t { kElement, kArray };
  void store(char *at, PyObject *value, As as);
  // The element that `key` names; null: it names no single one.
  [[nodiscard]] char *element_at(PyObject *key) const;
  [[nodiscard]] Owned copy_of_snapshot();
  [[nodiscard]] bool is_same_place(PyObject *part, PyObject *value) const;

  std::shared_ptr<const Origin> origin_;
  DomainCore *core_;
  char *data_;
  // 1, 2, 4 or 8: numbers that are loaded and stored through fields; 0: numpy accesses them.
  std::uint8_t field_bytes_ = 0;
  const bool is_read_only_;
  PyArrayObject *geometry_ = nullptr;
  // An element of the dtype in this process's memory, for conversions.
  PyArrayObject *scratch_ = nullptr;
  // The attempt that got a raw array last, and which (borrowed from that attempt).
  std::uint64_t lent_in_ = 0;
  PyObject *lent_ = nullptr;
};

}  // namespace tmh::python
