#include "bindings/python/src/raw_views.h"

#include <sys/mman.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <numpy/arrayscalars.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include "bindings/python/src/array_view.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

// Addresses from the first byte of an array to behind its last.
struct Extent {
  std::uintptr_t begin, end;

  Extent(const void *first, std::size_t bytes) noexcept
      : begin(reinterpret_cast<std::uintptr_t>(first)), end(begin + bytes) {}
  explicit Extent(PyArrayObject *array) noexcept : Extent(PyArray_DATA(array), 0) {
    stretch(PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array),
            PyArray_ITEMSIZE(array));
  }
  explicit Extent(const Py_buffer &buffer) noexcept : Extent(buffer.buf, 0) {
    if (buffer.strides != nullptr)
      stretch(buffer.ndim, buffer.shape, buffer.strides, buffer.itemsize);
    else
      end += static_cast<std::uintptr_t>(buffer.len);
  }

 private:
  void stretch(int dimensions, const Py_ssize_t *counts, const Py_ssize_t *strides,
               Py_ssize_t bytes) noexcept {
    const std::uintptr_t first = begin;
    for (int i = 0; i < dimensions; ++i) {
      if (counts[i] == 0) {
        begin = end = first;
        return;
      }
      const Py_ssize_t reach = (counts[i] - 1) * strides[i];
      (reach < 0 ? begin : end) += static_cast<std::uintptr_t>(reach);
    }
    end += static_cast<std::uintptr_t>(bytes);
  }
};

PyVoidScalarObject *as_record(PyObject *object) noexcept {
  TMH_ASSERT(PyArray_IsScalar(object, Void));
  return reinterpret_cast<PyVoidScalarObject *>(object);
}

Py_buffer *buffer_of(PyObject *view) noexcept {
  TMH_ASSERT(PyMemoryView_Check(view));
  return PyMemoryView_GET_BUFFER(view);
}

// What an object that shows memory hangs on; borrowed, may be null.
PyObject *base_of(PyObject *object) noexcept {
  if (PyArray_Check(object)) return PyArray_BASE(as_array(object));
  if (PyArray_IsScalar(object, Void)) return as_record(object)->base;
  if (PyMemoryView_Check(object)) return buffer_of(object)->obj;
  return nullptr;
}

// The objects that a walk has met: most of a program's.
class Seen {
 public:
  // False: it was there.
  [[nodiscard]] bool insert(PyObject *object) {
    if (2 * ++count_ > slots_.size()) grow();
    const bool is_new = put(slots_, object);
    if (!is_new) --count_;
    return is_new;
  }

 private:
  static bool put(std::vector<PyObject *> &slots, PyObject *object) noexcept {
    const std::size_t mask = slots.size() - 1;
    TMH_ASSERT(object != nullptr && (slots.size() & mask) == 0);
    std::size_t at = (reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u >> 20;
    for (at &= mask; slots[at] != nullptr; at = (at + 1) & mask)
      if (slots[at] == object) return false;
    slots[at] = object;
    return true;
  }
  void grow() {
    std::vector<PyObject *> larger(2 * slots_.size());
    for (PyObject *const object : slots_)
      if (object != nullptr) (void)put(larger, object);
    slots_ = std::move(larger);
  }

  std::size_t count_ = 0;
  std::vector<PyObject *> slots_ = std::vector<PyObject *>(1u << 16);
};

// Room for copies of what is held; pages that nothing is copied to take no memory.
class Frozen {
 public:
  Frozen() = default;
  Frozen(const Frozen &) = delete;
  Frozen &operator=(const Frozen &) = delete;
  ~Frozen() {
    for (const auto &[memory, bytes] : rooms_) munmap(memory, bytes);
  }
  // Null: there is none.
  [[nodiscard]] char *room_for(const Extent &extent) {
    TMH_ASSERT(extent.begin <= extent.end);
    const std::size_t bytes = extent.end - extent.begin + kAlignment;
    void *const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    rooms_.emplace_back(memory, bytes);
    // As it was aligned.
    return static_cast<char *>(memory) + extent.begin % kAlignment;
  }

 private:
  static constexpr std::size_t kAlignment = 4096;
  std::vector<std::pair<void *, std::size_t>> rooms_;
};

class Walk {
 public:
  explicit Walk(const std::vector<Lent> &held) : held_(held) {
    for (const Lent &lent : held) {
      extents_.emplace_back(as_array(lent.raw));
      references_[lent.raw] = 1;  // the attempt's
    }
    nditer_ = attribute("numpy", "nditer");
    const Owned simple = attribute("_ctypes", "_SimpleCData");
    if (simple) ctypes_ = reinterpret_cast<PyTypeObject *>(simple.get())->tp_base;
  }

  void add_root(PyObject *object) { reach(object); }
  // A variable of a frame that runs is a reference that no walk sees.
  void add_variable(PyObject *object) {
    if (PyArray_Check(object)) ++references_[object];
    reach(object);
  }

  void run() {
    while (!pending_.empty()) {
      PyObject *const object = pending_.back();
      pending_.pop_back();
      look_at(object, role_of(Py_TYPE(object)));
      if (PyObject_IS_GC(object) == 0) continue;
      if (const traverseproc traverse = Py_TYPE(object)->tp_traverse; traverse != nullptr)
        (void)traverse(object, &Walk::visit, this);
    }
  }

  // Stores to what has been found raise from here on.
  void forbid_stores() const {
    for (PyObject *const object : shown_) {
      if (PyArray_Check(object))
        PyArray_CLEARFLAGS(as_array(object), NPY_ARRAY_WRITEABLE);
      else if (PyMemoryView_Check(object))
        buffer_of(object)->readonly = 1;
      else
        as_record(object)->flags &= ~NPY_ARRAY_WRITEABLE;
    }
  }
  // What shows the memory shows a copy from here on. Behind forbid_stores().
  void freeze() {
    std::size_t bytes = 0;
    for (PyObject *const object : shown_) {
      TMH_ASSERT(!PyArray_Check(object) || !PyArray_ISWRITEABLE(as_array(object)));
      if (!is_held(object)) bytes += extent_of(object).end - extent_of(object).begin;
    }
    if (bytes > kFrozenBytesMax) return;
    const auto frozen = std::make_shared<Frozen>();
    std::vector<char *> rooms;
    for (const Extent &extent : extents_) {
      rooms.push_back(frozen->room_for(extent));
      if (rooms.back() == nullptr) return;
    }
    for (const Lent &lent : held_)
      nb::inst_ptr<RawOwner>(PyArray_BASE(as_array(lent.raw)))->frozen = frozen;
    for (PyObject *const object : shown_) {
      const std::size_t at = held_number(address_of(object));
      TMH_ASSERT(at < extents_.size());
      const Extent &whole = extents_[at];
      const auto moved = [&](std::uintptr_t address) {
        return rooms[at] + (address - whole.begin);
      };
      if (!is_held(object)) {
        Extent extent = extent_of(object);
        extent.begin = std::max(extent.begin, whole.begin);
        extent.end = std::min(extent.end, whole.end);
        std::memcpy(moved(extent.begin), reinterpret_cast<const void *>(extent.begin),
                    extent.end - extent.begin);
      }
      const char *const before = static_cast<const char *>(address_of(object));
      char *const now = moved(reinterpret_cast<std::uintptr_t>(before));
      point_to(object, now);
      for (PyArrayIterObject *const flat : flats_)
        if (reinterpret_cast<PyObject *>(flat->ao) == object)
          flat->dataptr = now + (flat->dataptr - before);
    }
  }
  // Behind all else: what the walk has met may go.
  void close_iterators() const {
    for (PyObject *const iterator : iterators_) {
      const Owned done(PyObject_CallMethod(iterator, "close", nullptr));
      if (!done) PyErr_Clear();
    }
  }

  [[nodiscard]] std::string still_held() const {
    if (!stores_by_ctypes_.empty()) return stores_by_ctypes_;
    for (PyObject *const object : shown_)
      // All references to an array should be found: any other one may store.
      if (PyArray_Check(object) && count_of(object) < Py_REFCNT(object)) return name_of(object);
    return {};
  }

 private:
  static int visit(PyObject *object, void *walk) noexcept try {
    static_cast<Walk *>(walk)->reach(object);
    return 0;
  } catch (const std::bad_alloc &) {
    return -1;
  }

  static PyObject *module(const char *name) noexcept {
    return PyDict_GetItemString(PyImport_GetModuleDict(), name);  // borrowed
  }
  static Owned attribute(const char *of, const char *name) noexcept {
    PyObject *const found = module(of);
    Owned value(found != nullptr ? PyObject_GetAttrString(found, name) : nullptr);
    PyErr_Clear();
    return value;
  }

  [[nodiscard]] Py_ssize_t count_of(PyObject *object) const {
    const auto found = references_.find(object);
    return found == references_.end() ? 0 : found->second;
  }

  // What the walk does at an object of a type.
  enum class Role : std::uint8_t {
    kLeaf,       // nothing
    kOnward,     // goes where the type's own traverse function goes
    kArray,      // also looks at the memory
    kRecord,     // a structured scalar
    kBuffer,     // memoryview
    kIterator,   // arr.flat
    kIterators,  // np.broadcast
    kNditer,
    kForeign,  // of ctypes: it stores without a look at any flag
  };
  [[nodiscard]] Role role_of(PyTypeObject *type) {
    if (type == last_type_) return last_role_;
    const auto [found, is_new] = roles_.try_emplace(type, Role::kLeaf);
    if (is_new) found->second = new_role_of(type);
    last_type_ = type;
    return last_role_ = found->second;
  }
  [[nodiscard]] Role new_role_of(PyTypeObject *type) const noexcept {
    const auto is = [&](PyTypeObject &base) { return PyType_IsSubtype(type, &base) != 0; };
    if (is(PyArray_Type)) return Role::kArray;
    if (is(PyVoidArrType_Type)) return Role::kRecord;
    if (is(PyMemoryView_Type)) return Role::kBuffer;
    if (is(PyArrayIter_Type)) return Role::kIterator;
    if (is(PyArrayMultiIter_Type)) return Role::kIterators;
    if (nditer_ && is(*reinterpret_cast<PyTypeObject *>(nditer_.get()))) return Role::kNditer;
    if (ctypes_ != nullptr && is(*ctypes_)) return Role::kForeign;
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) != 0 ? Role::kOnward : Role::kLeaf;
  }

  // An edge of the walk.
  void reach(PyObject *object) {
    if (object == nullptr) return;
    const Role role = role_of(Py_TYPE(object));
    if (role == Role::kLeaf) return;
    if (role == Role::kArray) ++references_[object];
    if (seen_.insert(object)) pending_.push_back(object);
  }

  static constexpr std::size_t kFrozenBytesMax = std::size_t{1} << 30;

  // Of the first one that has the address; as many as there are: none.
  [[nodiscard]] std::size_t held_number(const void *address) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    std::size_t i = 0;
    while (i < extents_.size() && (at < extents_[i].begin || at >= extents_[i].end)) ++i;
    return i;
  }
  [[nodiscard]] const Lent *held_at(const void *address) const noexcept {
    const std::size_t number = held_number(address);
    return number < held_.size() ? &held_[number] : nullptr;
  }
  [[nodiscard]] bool is_held(PyObject *object) const noexcept {
    return std::any_of(held_.begin(), held_.end(),
                       [&](const Lent &lent) { return lent.raw == object; });
  }
  [[nodiscard]] static Extent extent_of(PyObject *object) noexcept {
    if (PyArray_Check(object)) return Extent(as_array(object));
    if (PyMemoryView_Check(object)) return Extent(*buffer_of(object));
    PyVoidScalarObject *const record = as_record(object);
    return Extent(record->obval, static_cast<std::size_t>(Py_SIZE(object)));
  }
  static void point_to(PyObject *object, char *memory) noexcept {
    if (PyArray_Check(object))
      reinterpret_cast<PyArrayObject_fields *>(object)->data = memory;
    else if (PyMemoryView_Check(object))
      buffer_of(object)->buf = memory;
    else
      as_record(object)->obval = memory;
  }
  [[nodiscard]] static const void *address_of(PyObject *object) noexcept {
    if (PyArray_Check(object)) return PyArray_DATA(as_array(object));
    if (PyMemoryView_Check(object)) return buffer_of(object)->buf;
    return as_record(object)->obval;
  }
  [[nodiscard]] std::string name_of(PyObject *object) const {
    const Lent *const shown = held_at(address_of(object));
    return shown != nullptr ? shown->name : std::string();
  }

  // Of an instance that runs in another thread, or the geometry of a tmh.Array.
  [[nodiscard]] static bool is_lent(PyObject *object) noexcept {
    PyObject *owner = object;
    while (PyObject *const base = base_of(owner)) owner = base;
    return nb::isinstance<RawOwner>(owner) && !nb::inst_ptr<RawOwner>(owner)->is_escaped;
  }

  void look_at(PyObject *object, Role role) {
    switch (role) {
      case Role::kLeaf:
      case Role::kOnward:
        return;
      case Role::kArray:
        note_if_shown(object);
        reach(base_of(object));
        return look_into(as_array(object));
      case Role::kRecord:
        note_if_shown(object);
        return reach(base_of(object));
      case Role::kBuffer:  // its base is an edge of an object that the collector knows
        return note_if_shown(object);
      case Role::kIterator:
        flats_.push_back(reinterpret_cast<PyArrayIterObject *>(object));
        return reach(reinterpret_cast<PyObject *>(flats_.back()->ao));
      case Role::kIterators: {
        auto *const all = reinterpret_cast<PyArrayMultiIterObject *>(object);
        for (int i = 0; i < all->numiter; ++i) reach(reinterpret_cast<PyObject *>(all->iters[i]));
        return;
      }
      case Role::kNditer:
        return look_at_operands(object);
      case Role::kForeign:
        return look_at_foreign(object);
    }
  }

  void note_if_shown(PyObject *object) {
    if (held_at(address_of(object)) != nullptr && !is_lent(object)) shown_.push_back(object);
  }

  // An array of objects, which the collector does not look into.
  void look_into(PyArrayObject *array) {
    if (PyArray_TYPE(array) != NPY_OBJECT || !PyArray_ISONESEGMENT(array) ||
        !PyArray_ISALIGNED(array))
      return;
    auto *const objects = reinterpret_cast<PyObject **>(Extent(array).begin);
    for (npy_intp i = 0; i < PyArray_SIZE(array); ++i) reach(objects[i]);
  }

  void look_at_operands(PyObject *iterator) {
    const Owned operands(PyObject_GetAttrString(iterator, "operands"));
    if (!operands || !PyTuple_Check(operands.get())) return PyErr_Clear();  // it is closed
    bool shows = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands.get()); ++i) {
      PyObject *const operand = PyTuple_GET_ITEM(operands.get(), i);
      reach(operand);
      shows |=
          PyArray_Check(operand) && held_at(address_of(operand)) != nullptr && !is_lent(operand);
    }
    if (shows) iterators_.push_back(iterator);
  }

  void look_at_foreign(PyObject *object) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) != 0) return PyErr_Clear();
    const Lent *const shown = held_at(buffer.buf);
    PyBuffer_Release(&buffer);
    if (shown != nullptr) stores_by_ctypes_ = shown->name;
  }

  const std::vector<Lent> &held_;
  std::vector<Extent> extents_;
  Owned nditer_;
  // Base class of what ctypes makes. Borrowed.
  PyTypeObject *ctypes_ = nullptr;
  std::unordered_map<PyTypeObject *, Role> roles_;
  PyTypeObject *last_type_ = nullptr;
  Role last_role_ = Role::kLeaf;
  Seen seen_;
  std::vector<PyObject *> pending_;
  std::unordered_map<PyObject *, Py_ssize_t> references_;
  std::vector<PyObject *> shown_;
  std::vector<PyObject *> iterators_;
  std::vector<PyArrayIterObject *> flats_;
  std::string stores_by_ctypes_;
};

// Of a frame that runs.
struct Variables {
  Owned names;   // a mapping; it may hold the values, too
  Owned values;  // a list
};

std::vector<Variables> variables_of_all_threads() {
  std::vector<Variables> all;
  PyObject *const current = PySys_GetObject("_current_frames");  // borrowed
  const Owned frames(current != nullptr ? PyObject_CallNoArgs(current) : nullptr);
  const Owned tops(frames ? PyMapping_Values(frames.get()) : nullptr);
  const Py_ssize_t count = tops ? PyList_GET_SIZE(tops.get()) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Owned frame = Owned::share(PyList_GET_ITEM(tops.get(), i));
    while (frame) {
      Owned names(PyObject_GetAttrString(frame.get(), "f_locals"));
      Owned values(names ? PyMapping_Values(names.get()) : nullptr);
      if (values) all.push_back({std::move(names), std::move(values)});
      PyErr_Clear();
      frame = Owned(reinterpret_cast<PyObject *>(
          PyFrame_GetBack(reinterpret_cast<PyFrameObject *>(frame.get()))));
    }
  }
  PyErr_Clear();
  return all;
}

}  // namespace

std::string settle_views(const std::vector<Lent> &held, bool can_read) noexcept try {
  const SavedError other;
  for (const Lent &lent : held) {
    TMH_ASSERT(Py_REFCNT(lent.raw) > 1);  // something holds it
    PyArray_CLEARFLAGS(as_array(lent.raw), NPY_ARRAY_WRITEABLE);
  }
  const std::vector<Variables> variables = variables_of_all_threads();
  const Owned gc(PyImport_ImportModule("gc"));
  const Owned tracked(gc ? PyObject_CallMethod(gc.get(), "get_objects", nullptr) : nullptr);
  Walk walk(held);
  for (const auto &[names, values] : variables) {
    for (Py_ssize_t i = 0; PyList_Check(values.get()) && i < PyList_GET_SIZE(values.get()); ++i)
      walk.add_variable(PyList_GET_ITEM(values.get(), i));
    walk.add_root(names.get());
    walk.add_root(values.get());
  }
  if (tracked) walk.add_root(tracked.get());
  // What gc.freeze() has put aside is reached from here.
  walk.add_root(PyImport_GetModuleDict());
  walk.run();
  walk.forbid_stores();
  std::string name = walk.still_held();
  if (can_read) walk.freeze();
  walk.close_iterators();
  PyErr_Clear();
  return name;
} catch (const std::bad_alloc &) {
  return held.front().name;
}

}  // namespace tmh::python
