#include "bindings/python/src/array_view.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <tmh/field.hpp>

#include "bindings/python/src/errors.h"
#include "bindings/python/src/instance.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

PyObject *array_class = nullptr;

// The index of an array of no dimensions. Borrowed.
PyObject *no_index() {
  static PyObject *const empty = PyTuple_New(0);
  if (empty == nullptr) throw ErrorIsSet{};
  return empty;
}

// Basic indexing: its result is a part of the array, whose memory it does not touch.
bool is_basic(PyObject *key) noexcept {
  const auto is_one = [](PyObject *each) {
    if (each == Py_None || each == Py_Ellipsis || PySlice_Check(each)) return true;
    return PyIndex_Check(each) && !PyBool_Check(each) && !PyArray_Check(each) &&
           !PyArray_IsScalar(each, Bool);
  };
  if (PyUnicode_Check(key)) return true;
  if (!PyTuple_Check(key)) return is_one(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (!is_one(PyTuple_GET_ITEM(key, i))) return false;
  return true;
}

template <class Word>
void load_word(const char *from, char *to) {
  static_assert(sizeof(field<Word>) == sizeof(Word), "an element of an array is a field");
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0);
  const Word word = reinterpret_cast<const field<Word> *>(from)->load();
  std::memcpy(to, &word, sizeof word);
}
void load_words(const char *from, char *to, std::uint8_t bytes) {
  TMH_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  switch (bytes) {
    case 1:
      return load_word<std::uint8_t>(from, to);
    case 2:
      return load_word<std::uint16_t>(from, to);
    case 4:
      return load_word<std::uint32_t>(from, to);
    default:
      return load_word<std::uint64_t>(from, to);
  }
}
template <class Word>
void store_word(char *to, const char *from) {
  static_assert(sizeof(field<Word>) == sizeof(Word), "an element of an array is a field");
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(to) % sizeof(Word) == 0);
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  reinterpret_cast<field<Word> *>(to)->store(word);
}
void store_words(char *to, const char *from, std::uint8_t bytes) {
  TMH_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  switch (bytes) {
    case 1:
      return store_word<std::uint8_t>(to, from);
    case 2:
      return store_word<std::uint16_t>(to, from);
    case 4:
      return store_word<std::uint32_t>(to, from);
    default:
      return store_word<std::uint64_t>(to, from);
  }
}

}  // namespace

void RawOwner::escape() noexcept {
  TMH_ASSERT(!is_escaped);
  is_escaped = true;
  ++origin->domain_core().escaped;
}

RawOwner::~RawOwner() {
  TMH_ASSERT(!is_escaped || origin->domain_core().escaped > 0);
  if (is_escaped) --origin->domain_core().escaped;
}

ArrayView::ArrayView(std::shared_ptr<const Origin> origin, char *data, PyArrayObject *geometry,
                     bool is_read_only)
    : origin_(std::move(origin)),
      core_(&origin_->domain_core()),
      data_(data),
      is_read_only_(is_read_only) {
  TMH_ASSERT(geometry != nullptr);
  geometry_ = as_array(make_raw(geometry).release());
  PyArray_Descr *const dtype = PyArray_DESCR(geometry_);
  const npy_intp bytes = PyArray_ITEMSIZE(geometry_);
  const bool is_word = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  // By its size: numpy aligns a complex number by half of that.
  const auto is_aligned = [&](std::uintptr_t distance) {
    return distance % static_cast<std::uintptr_t>(bytes) == 0;
  };
  if (is_word && std::strchr("biufcmM", dtype->kind) != nullptr &&
      PyArray_ISNOTSWAPPED(geometry_) && is_aligned(reinterpret_cast<std::uintptr_t>(data_)) &&
      std::all_of(
          PyArray_STRIDES(geometry_), PyArray_STRIDES(geometry_) + PyArray_NDIM(geometry_),
          [&](npy_intp stride) { return is_aligned(static_cast<std::uintptr_t>(stride)); })) {
    field_bytes_ = static_cast<std::uint8_t>(bytes);
    Py_INCREF(dtype);
    scratch_ = as_array(
        PyArray_NewFromDescr(&PyArray_Type, dtype, 0, nullptr, nullptr, nullptr, 0, nullptr));
    if (scratch_ == nullptr) {
      Py_CLEAR(geometry_);
      throw ErrorIsSet{};
    }
  }
}

ArrayView::ArrayView(ArrayView &&other) noexcept
    : origin_(std::move(other.origin_)),
      core_(other.core_),
      data_(other.data_),
      field_bytes_(other.field_bytes_),
      is_read_only_(other.is_read_only_),
      geometry_(std::exchange(other.geometry_, nullptr)),
      scratch_(std::exchange(other.scratch_, nullptr)) {}

ArrayView::~ArrayView() {
  Py_CLEAR(geometry_);
  Py_CLEAR(scratch_);
}

Owned ArrayView::make_raw(PyArrayObject *geometry) const {
  PyArray_Descr *const dtype = PyArray_DESCR(geometry);
  Py_INCREF(dtype);
  Owned made = Owned::checked(
      PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(geometry), PyArray_DIMS(geometry),
                           PyArray_STRIDES(geometry), data_, NPY_ARRAY_WRITEABLE, nullptr));
  nb::object owner = nb::inst_alloc(nb::type<RawOwner>());
  new (nb::inst_ptr<RawOwner>(owner)) RawOwner(origin_, is_read_only_);
  nb::inst_mark_ready(owner);
  if (PyArray_SetBaseObject(as_array(made.get()), owner.release().ptr()) != 0) throw ErrorIsSet{};
  PyArray_UpdateFlags(as_array(made.get()),
                      NPY_ARRAY_ALIGNED | NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS);
  if (is_read_only_) PyArray_CLEARFLAGS(as_array(made.get()), NPY_ARRAY_WRITEABLE);
  return made;
}

Owned ArrayView::wrapped(ArrayView &&view) {
  TMH_ASSERT(array_class != nullptr && view.geometry_ != nullptr);
  nb::object self = nb::inst_alloc(nb::handle(array_class));
  new (nb::inst_ptr<ArrayView>(self)) ArrayView(std::move(view));
  nb::inst_mark_ready(self);
  return Owned(self.release().ptr());
}

ArrayView &ArrayView::of(PyObject *object) { return made<ArrayView>(object); }

bool ArrayView::is_one(PyObject *object) noexcept {
  TMH_ASSERT(array_class != nullptr && object != nullptr);
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(array_class)) != 0;
}

void ArrayView::set_class(nb::object type) {
  TMH_ASSERT(type.is_valid());
  array_class = type.release().ptr();
}

Owned ArrayView::make(std::shared_ptr<const Origin> origin, std::uintptr_t address, PyObject *dtype,
                      PyObject *shape) {
  PyArray_Descr *descr = nullptr;
  if (PyArray_DescrConverter(dtype, &descr) == NPY_FAIL) throw ErrorIsSet{};
  if (PyDataType_REFCHK(descr)) {
    Py_DECREF(descr);
    raise(Errc::kCorrupt, "'" + origin->name + "' is said to hold objects of Python");
  }
  PyArray_Dims dims{};
  if (PyArray_IntpConverter(shape, &dims) == NPY_FAIL) {
    Py_DECREF(descr);
    throw ErrorIsSet{};
  }
  // No memory of its own is allocated for the shape.
  const Owned geometry(PyArray_NewFromDescr(&PyArray_Type, descr, dims.len, dims.ptr, nullptr,
                                            reinterpret_cast<void *>(address), 0, nullptr));
  PyDimMem_FREE(dims.ptr);
  if (!geometry) throw ErrorIsSet{};
  origin->segment->require_inside(
      address, static_cast<std::uint64_t>(PyArray_NBYTES(as_array(geometry.get()))), origin->name);
  return wrapped(
      ArrayView(std::move(origin), reinterpret_cast<char *>(address), as_array(geometry.get())));
}

bool ArrayView::is_inside() const noexcept { return running().core == core_; }

void ArrayView::require_mapped() const {
  (void)core().domain();
  origin_->segment->require_mapped(origin_->name);
}

void ArrayView::require_readable() const {
  require_mapped();
  if (!is_inside() && running().forked_in == core_ && !origin_->reads_outside)
    raise_outside(core(), ("reading '" + origin_->name + "'").c_str());
  if (!is_inside() && !origin_->reads_outside)
    raise(Errc::kEndWithoutBegin,
          "reading '" + origin_->name + "' needs a running instance of " + core().folder() +
              ": read it in @domain.atomically or `with domain.query():`, or map the segment with "
              "outside='snapshot'");
}

void ArrayView::require_storable() const {
  if (is_read_only_) raise(PyExc_ValueError, "assignment destination is read-only");
  if (is_inside() && !running().is_query) [[likely]]
    return;
  require_update(core(), ("a store to '" + origin_->name + "'").c_str());
}

Owned ArrayView::part(PyObject *key) {
  // With "..." behind it a full index names an array of no dimensions, too.
  const bool is_name = PyUnicode_Check(key);
  Owned longer;
  if (!is_name) {
    const Owned dots = Owned::checked(PyTuple_Pack(1, Py_Ellipsis));
    const Owned indices =
        PyTuple_Check(key) ? Owned::share(key) : Owned::checked(PyTuple_Pack(1, key));
    longer = element_at(key) != nullptr
                 ? Owned::checked(PySequence_Concat(indices.get(), dots.get()))
                 : Owned::share(key);
  }
  const Owned view = Owned::checked(PyObject_GetItem(geometry(), is_name ? key : longer.get()));
  Owned shown = part_shown_by(view.get());
  if (!shown) raise(PyExc_IndexError, "not an index of an array");
  return shown;
}

Owned ArrayView::part_shown_by(PyObject *view) {
  TMH_ASSERT(view != nullptr);
  if (!PyArray_Check(view)) return {};
  PyArrayObject *const array = as_array(view);
  PyArrayObject *whole = array;
  PyObject *owner = PyArray_BASE(whole);
  for (; owner != nullptr && PyArray_Check(owner); owner = PyArray_BASE(whole))
    whole = as_array(owner);
  if (owner == nullptr || !nb::isinstance<RawOwner>(owner)) return {};
  const RawOwner &from = *nb::inst_ptr<RawOwner>(owner);
  // As np.broadcast_to() makes them. Of a query's arrays none is writeable, which says nothing.
  bool is_read_only =
      from.is_read_only || (PyArray_ISWRITEABLE(whole) && !PyArray_ISWRITEABLE(array));
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    is_read_only |= PyArray_DIM(array, i) > 1 && PyArray_STRIDE(array, i) == 0;
  return wrapped(
      ArrayView(from.origin, static_cast<char *>(PyArray_DATA(array)), array, is_read_only));
}

char *ArrayView::element_at(PyObject *key) const {
  const int dimensions = PyArray_NDIM(geometry_);
  const auto at = [&](PyObject *index, int dimension, char **address) {
    if (!PyIndex_Check(index) || PyBool_Check(index) || PyArray_Check(index) ||
        PyArray_IsScalar(index, Bool))
      return false;
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred() != nullptr) throw ErrorIsSet{};
    const npy_intp size = PyArray_DIM(geometry_, dimension);
    if (i < -size || i >= size)
      raise(PyExc_IndexError, "index " + std::to_string(i) + " is out of bounds for axis " +
                                  std::to_string(dimension) + " of '" + origin_->name +
                                  "' with size " + std::to_string(size));
    *address += (i < 0 ? i + size : i) * PyArray_STRIDE(geometry_, dimension);
    return true;
  };
  char *address = data_;
  if (dimensions == 1 && !PyTuple_Check(key)) return at(key, 0, &address) ? address : nullptr;
  if (!PyTuple_Check(key) || PyTuple_GET_SIZE(key) != dimensions) return nullptr;
  for (int i = 0; i < dimensions; ++i)
    if (!at(PyTuple_GET_ITEM(key, i), i, &address)) return nullptr;
  return address;
}

Owned ArrayView::load(const char *at) {
  TMH_ASSERT(field_bytes_ != 0);
  require_readable();
  char bytes[8];
  if (is_inside()) [[likely]] {
    if (running().pending != Pending::kNone) throw detail::LineAbort{};
    load_words(at, bytes, field_bytes_);
  } else {
    run_own(core(), core().reads_outside, Kind::kQuery, [&] {
      origin_->segment->require_mapped(origin_->name);
      load_words(at, bytes, field_bytes_);
    });
  }
  return Owned::checked(PyArray_Scalar(bytes, PyArray_DESCR(geometry_), nullptr));
}

void ArrayView::store(char *at, PyObject *value, As as) {
  TMH_ASSERT(field_bytes_ != 0 && scratch_ != nullptr);
  // First: it may run code of the value's class. numpy takes numbers of Python as they are, and
  // casts others; a whole array of no dimensions takes what can be one.
  const bool is_python_number =
      PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value);
  auto *const scratch = reinterpret_cast<PyObject *>(scratch_);
  const int failed = is_python_number   ? PyArray_SETITEM(scratch_, PyArray_BYTES(scratch_), value)
                     : as == As::kArray ? PyArray_CopyObject(scratch_, value)
                                        : PyObject_SetItem(scratch, no_index(), value);
  if (failed != 0) throw ErrorIsSet{};
  require_mapped();
  require_storable();
  if (running().pending != Pending::kNone) throw detail::LineAbort{};
  store_words(at, PyArray_BYTES(scratch_), field_bytes_);
}

Owned ArrayView::get(PyObject *key) {
  // First: an index may run code of its class.
  if (field_bytes_ != 0)
    if (char *const at = element_at(key); at != nullptr) return load(at);
  require_readable();
  if (is_basic(key)) {
    Owned part_of_it = part(key);
    ArrayView &view = of(part_of_it.get());
    // As in numpy a full index, or a field of one record, is a number; a record is a part.
    const bool is_element = PyArray_NDIM(view.geometry_) == 0 &&
                            !PyDataType_HASFIELDS(PyArray_DESCR(view.geometry_)) &&
                            (PyUnicode_Check(key) || element_at(key) != nullptr);
    if (!is_element) return part_of_it;
    if (view.field_bytes_ != 0) return view.load(view.data_);
    const Owned raw_of_it = view.raw(false);
    const Owned empty = Owned::checked(PyTuple_New(0));
    return Owned::checked(PyObject_GetItem(raw_of_it.get(), empty.get()));
  }
  const Owned all = raw(false);
  return Owned::checked(PyObject_GetItem(all.get(), key));
}

bool ArrayView::is_same_place(PyObject *part_of_it, PyObject *value) const {
  PyArrayObject *const a = of(part_of_it).geometry_, *const b = of(value).geometry_;
  return PyArray_DATA(a) == PyArray_DATA(b) && PyArray_NDIM(a) == PyArray_NDIM(b) &&
         PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)) != 0 &&
         PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), PyArray_NDIM(a)) != 0 &&
         PyArray_EquivTypes(PyArray_DESCR(a), PyArray_DESCR(b)) != 0;
}

void ArrayView::set(PyObject *key, PyObject *value) {
  if (value == nullptr) raise(PyExc_ValueError, "elements of an array cannot be deleted");
  if (field_bytes_ != 0 && !PyArray_Check(value) && !is_one(value))
    if (char *const at = element_at(key); at != nullptr) return store(at, value, As::kElement);
  require_mapped();
  require_storable();
  if (running().pending != Pending::kNone) throw detail::LineAbort{};
  if (is_basic(key)) {
    const Owned part_of_it = part(key);
    ArrayView &view = of(part_of_it.get());
    const bool is_element = PyArray_NDIM(view.geometry_) == 0;
    // `a[1:3] += 1` stores into the part, and then the part into where it lies.
    if (is_one(value) && is_same_place(part_of_it.get(), value)) return;
    if (is_element && view.field_bytes_ != 0 && !PyArray_Check(value) && !is_one(value))
      return view.store(view.data_, value, As::kArray);
  }
  const Owned to = raw(true);
  Owned from = is_one(value) ? of(value).raw(false) : Owned::share(value);
  if (PyObject_SetItem(to.get(), key, from.get()) != 0) throw ErrorIsSet{};
}

Owned ArrayView::copy_of_snapshot() {
  TMH_ASSERT(!is_inside());
  QueryScope scope(core());
  scope.enter();
  const bool is_mapped = origin_->segment->is_mapped;
  Owned copy(is_mapped ? PyArray_NewCopy(geometry_, NPY_ANYORDER) : nullptr);
  scope.leave(false);
  origin_->segment->require_mapped(origin_->name);
  if (!copy) throw ErrorIsSet{};
  // A store to it would be lost.
  PyArray_CLEARFLAGS(as_array(copy.get()), NPY_ARRAY_WRITEABLE);
  return copy;
}

Owned ArrayView::raw(bool for_update) {
  require_readable();
  if (for_update) require_storable();
  if (!is_inside()) return copy_of_snapshot();
  Running &here = running();
  if (here.pending != Pending::kNone) throw detail::LineAbort{};
  need_plain();
  if (lent_in_ != here.serial) {
    Owned made = make_raw(geometry_);
    if (here.is_query) PyArray_CLEARFLAGS(as_array(made.get()), NPY_ARRAY_WRITEABLE);
    here.lent.push_back({made.get(), origin_->name});
    lent_ = made.release();
    lent_in_ = here.serial;
  }
  TMH_ASSERT(lent_ != nullptr);
  return Owned::share(lent_);
}

}  // namespace tmh::python
