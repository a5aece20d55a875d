#include "bindings/python/src/codec.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bindings/python/src/errors.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

constexpr int kIntTag = 0x20, kIntBytesMax = 16;
constexpr char kBytesTag = 0x60, kTextTag = 0x61;
static_assert(kIntBytesMax < kIntTag && kIntTag + kIntBytesMax < kBytesTag && kBytesTag < kTextTag,
              "int before bytes before str");
static_assert(std::endian::native == std::endian::little && sizeof(long long) == 8 &&
              sizeof(double) == 8);

// Numbers of numpy are taken for Python's, as dict does.
Owned as_int(PyObject *object) {
  return PyLong_Check(object) ? Owned::share(object) : Owned::checked(PyNumber_Index(object));
}

// A method of int itself: a class that derives from it may have others.
template <class... Arguments>
Owned of_int(const char *method, const char *format, Arguments... arguments) {
  return Owned::checked(PyObject_CallMethod(reinterpret_cast<PyObject *>(&PyLong_Type), method,
                                            format, arguments...));
}

std::string_view text_of(PyObject *text) {
  TMH_ASSERT(PyUnicode_Check(text));
  Py_ssize_t bytes = 0;
  const char *utf8 = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (utf8 == nullptr) throw ErrorIsSet{};
  return {utf8, static_cast<std::size_t>(bytes)};
}

std::string_view bytes_of(PyObject *bytes) {
  TMH_ASSERT(PyBytes_Check(bytes));
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

// A time span of numpy derives from its integers, and is none.
bool is_int(PyObject *object) {
  return PyLong_Check(object) ||
         (PyArray_IsScalar(object, Integer) && !PyArray_IsScalar(object, Timedelta));
}

// Two's complement, little-endian. number: it fits.
std::string int_bytes(PyObject *number, std::size_t bytes) {
  TMH_ASSERT(bytes > 0);
  const Owned to_bytes = Owned::checked(
      PyObject_GetAttrString(reinterpret_cast<PyObject *>(&PyLong_Type), "to_bytes"));
  const Owned args =
      Owned::checked(Py_BuildValue("(Ons)", number, static_cast<Py_ssize_t>(bytes), "little"));
  const Owned kwargs = Owned::checked(Py_BuildValue("{sO}", "signed", Py_True));
  const Owned encoded = Owned::checked(PyObject_Call(to_bytes.get(), args.get(), kwargs.get()));
  return std::string(bytes_of(encoded.get()));
}

Owned int_of(std::string_view bytes, bool is_signed) {
  const Owned kwargs = Owned::checked(PyDict_New());
  if (PyDict_SetItemString(kwargs.get(), "signed", is_signed ? Py_True : Py_False) != 0)
    throw ErrorIsSet{};
  const Owned args = Owned::checked(
      Py_BuildValue("(y#s)", bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "little"));
  const Owned from_bytes = Owned::checked(
      PyObject_GetAttrString(reinterpret_cast<PyObject *>(&PyLong_Type), "from_bytes"));
  return Owned::checked(PyObject_Call(from_bytes.get(), args.get(), kwargs.get()));
}

std::size_t bit_length(PyObject *number) {
  const Owned bits = of_int("bit_length", "O", number);
  const std::size_t length = PyLong_AsSize_t(bits.get());
  if (length == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) throw ErrorIsSet{};
  return length;
}

// Of an int that fits 64 bits and a sign: its magnitude's bytes, big-endian, complemented for a
// negative one.
std::string encode_small_int(std::uint64_t magnitude, bool is_negative) {
  TMH_ASSERT(!is_negative || magnitude != 0);
  const int bytes = (64 - std::countl_zero(magnitude) + 7) / 8;
  std::string key(1, static_cast<char>(is_negative ? kIntTag - bytes : kIntTag + bytes));
  for (int i = bytes; i-- > 0;) {
    const auto byte = static_cast<unsigned char>(magnitude >> 8 * i);
    key += static_cast<char>(is_negative ? ~byte : byte);
  }
  return key;
}

std::string encode_int_key(PyObject *object) {
  const Owned number = as_int(object);
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (small == -1 && PyErr_Occurred() != nullptr) throw ErrorIsSet{};
  if (overflow == 0) {
    const auto bits = static_cast<std::uint64_t>(small);
    return encode_small_int(small < 0 ? 0 - bits : bits, small < 0);
  }
  const Owned magnitude = of_int("__abs__", "O", number.get());
  const std::size_t bytes = (bit_length(magnitude.get()) + 7) / 8;
  if (bytes > kIntBytesMax) raise(PyExc_OverflowError, "an int key has at most 128 bits");
  const bool is_negative = overflow < 0;
  std::string key(1, static_cast<char>(is_negative ? kIntTag - static_cast<int>(bytes)
                                                   : kIntTag + static_cast<int>(bytes)));
  // One byte more: for the sign.
  const std::string little = int_bytes(magnitude.get(), bytes + 1);
  for (std::size_t i = bytes; i-- > 0;)
    key += static_cast<char>(is_negative ? ~little[i] : little[i]);
  return key;
}

Owned decode_int_key(std::string_view bytes) {
  TMH_ASSERT(!bytes.empty());
  const int tag = static_cast<unsigned char>(bytes[0]);
  const bool is_negative = tag < kIntTag;
  std::string little(bytes.rbegin(), bytes.rend() - 1);
  if (is_negative)
    for (char &byte : little) byte = static_cast<char>(~byte);
  if (little.size() < 8) {
    std::uint64_t magnitude = 0;
    std::memcpy(&magnitude, little.data(), little.size());
    const auto number = static_cast<long long>(magnitude);
    return Owned::checked(PyLong_FromLongLong(is_negative ? -number : number));
  }
  Owned number = int_of(little, false);
  return is_negative ? Owned::checked(PyNumber_Negative(number.get())) : std::move(number);
}

[[noreturn]] void raise_foreign(std::string_view bytes) {
  raise(PyExc_ValueError, "the dict holds " + std::to_string(bytes.size()) +
                              " bytes that are none of this package's");
}

std::string encode_int_value(PyObject *value) {
  const Owned number = as_int(value);
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (small == -1 && PyErr_Occurred() != nullptr) throw ErrorIsSet{};
  std::string bytes(1, 'i');
  if (overflow == 0) {
    bytes.resize(1 + sizeof small);
    std::memcpy(bytes.data() + 1, &small, sizeof small);
    return bytes;
  }
  bytes[0] = 'I';
  return bytes.append(int_bytes(number.get(), bit_length(number.get()) / 8 + 1));
}

// Of a number of numpy's own types: its type's letter and its bytes. Empty: it is none.
std::string encode_scalar(PyObject *value) {
  if (!PyArray_IsScalar(value, Number) && !PyArray_IsScalar(value, Bool)) return {};
  const Owned owned = Owned::checked(reinterpret_cast<PyObject *>(PyArray_DescrFromScalar(value)));
  auto *const dtype = reinterpret_cast<PyArray_Descr *>(owned.get());
  if (!PyTypeNum_ISNUMBER(dtype->type_num) && !PyTypeNum_ISBOOL(dtype->type_num)) return {};
  std::string bytes{'c', dtype->type};
  bytes.resize(2 + static_cast<std::size_t>(PyDataType_ELSIZE(dtype)));
  PyArray_ScalarAsCtype(value, bytes.data() + 2);
  return bytes;
}

Owned decode_scalar(std::string_view bytes) {
  constexpr std::string_view kTypes = "?bBhHiIlLqQefdgFDG";
  if (bytes.empty() || kTypes.find(bytes[0]) == kTypes.npos) raise_foreign(bytes);
  const Owned owned = Owned::checked(reinterpret_cast<PyObject *>(PyArray_DescrFromType(bytes[0])));
  auto *const dtype = reinterpret_cast<PyArray_Descr *>(owned.get());
  if (bytes.size() != 1 + static_cast<std::size_t>(PyDataType_ELSIZE(dtype))) raise_foreign(bytes);
  alignas(std::max_align_t) char number[32];
  TMH_ASSERT(bytes.size() - 1 <= sizeof number);
  std::memcpy(number, bytes.data() + 1, bytes.size() - 1);
  return Owned::checked(PyArray_Scalar(number, dtype, nullptr));
}

std::string encode_array(PyObject *value) {
  const Owned format = Owned::checked(PyImport_ImportModule("tmh._format"));
  const Owned parts = Owned::checked(PyObject_CallMethod(format.get(), "encode", "O", value));
  PyObject *const head = PyTuple_GetItem(parts.get(), 0);
  PyObject *const data = PyTuple_GetItem(parts.get(), 1);
  if (head == nullptr || data == nullptr || !PyBytes_Check(head) || !PyBytes_Check(data))
    raise(PyExc_TypeError, "tmh._format.encode() gave no bytes");
  const auto head_bytes = static_cast<std::uint32_t>(bytes_of(head).size());
  std::string bytes(1 + sizeof head_bytes, 'a');
  std::memcpy(bytes.data() + 1, &head_bytes, sizeof head_bytes);
  return bytes.append(bytes_of(head)).append(bytes_of(data));
}

Owned decode_array(std::string_view bytes) {
  std::uint32_t head_bytes = 0;
  if (bytes.size() < 1 + sizeof head_bytes) raise_foreign(bytes);
  std::memcpy(&head_bytes, bytes.data() + 1, sizeof head_bytes);
  bytes.remove_prefix(1 + sizeof head_bytes);
  if (bytes.size() < head_bytes) raise_foreign(bytes);
  const std::string_view data = bytes.substr(head_bytes);
  const Owned format = Owned::checked(PyImport_ImportModule("tmh._format"));
  return Owned::checked(PyObject_CallMethod(format.get(), "decode", "y#y#", bytes.data(),
                                            static_cast<Py_ssize_t>(head_bytes), data.data(),
                                            static_cast<Py_ssize_t>(data.size())));
}

}  // namespace

std::string encode_key(PyObject *key) {
  if (PyUnicode_Check(key)) return std::string(1, kTextTag).append(text_of(key));
  if (PyBytes_Check(key)) return std::string(1, kBytesTag).append(bytes_of(key));
  if (is_int(key)) return encode_int_key(key);
  raise(PyExc_TypeError,
        std::string("a key is an int, bytes or a str, not ") + Py_TYPE(key)->tp_name);
}

Owned decode_key(std::string_view bytes) {
  if (bytes.empty()) raise_foreign(bytes);
  const std::string_view rest = bytes.substr(1);
  const auto size = static_cast<Py_ssize_t>(rest.size());
  if (bytes[0] == kTextTag) return Owned::checked(PyUnicode_FromStringAndSize(rest.data(), size));
  if (bytes[0] == kBytesTag) return Owned::checked(PyBytes_FromStringAndSize(rest.data(), size));
  const int tag = static_cast<unsigned char>(bytes[0]);
  if (std::abs(tag - kIntTag) != size) raise_foreign(bytes);
  return decode_int_key(bytes);
}

std::string encode_value(PyObject *value, bool pickles) {
  // First: some of numpy's numbers are Python's, too, and come back as what they were.
  if (PyArray_IsScalar(value, Generic)) {
    std::string bytes = encode_scalar(value);
    return bytes.empty() ? encode_array(value) : bytes;
  }
  if (PyArray_Check(value)) return encode_array(value);
  if (PyBytes_Check(value)) return std::string(1, 'b').append(bytes_of(value));
  if (PyUnicode_Check(value)) return std::string(1, 's').append(text_of(value));
  if (value == Py_None) return "n";
  if (PyBool_Check(value)) return value == Py_True ? "t" : "f";
  if (PyFloat_Check(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    std::string bytes(1 + sizeof number, 'd');
    std::memcpy(bytes.data() + 1, &number, sizeof number);
    return bytes;
  }
  if (is_int(value)) return encode_int_value(value);
  if (pickles) {
    const Owned pickle = Owned::checked(PyImport_ImportModule("pickle"));
    const Owned bytes = Owned::checked(PyObject_CallMethod(pickle.get(), "dumps", "O", value));
    return std::string(1, 'p').append(bytes_of(bytes.get()));
  }
  raise(PyExc_TypeError, std::string("a value is None, a bool, int, float, bytes, str or numpy "
                                     "array, not ") +
                             Py_TYPE(value)->tp_name + "; pickle=True stores others");
}

Owned decode_value(std::string_view bytes, bool pickles) {
  if (bytes.empty()) raise_foreign(bytes);
  const std::string_view rest = bytes.substr(1);
  const auto size = static_cast<Py_ssize_t>(rest.size());
  switch (bytes[0]) {
    case 'b':
      return Owned::checked(PyBytes_FromStringAndSize(rest.data(), size));
    case 's':
      return Owned::checked(PyUnicode_FromStringAndSize(rest.data(), size));
    case 'n':
      return Owned::share(Py_None);
    case 't':
      return Owned::share(Py_True);
    case 'f':
      return Owned::share(Py_False);
    case 'i': {
      long long number = 0;
      if (rest.size() != sizeof number) raise_foreign(bytes);
      std::memcpy(&number, rest.data(), sizeof number);
      return Owned::checked(PyLong_FromLongLong(number));
    }
    case 'I':
      return int_of(rest, true);
    case 'd': {
      double number = 0;
      if (rest.size() != sizeof number) raise_foreign(bytes);
      std::memcpy(&number, rest.data(), sizeof number);
      return Owned::checked(PyFloat_FromDouble(number));
    }
    case 'a':
      return decode_array(bytes);
    case 'c':
      return decode_scalar(rest);
    case 'p': {
      if (!pickles)
        raise(PyExc_TypeError, "the value was stored by pickle: open the dict with pickle=True");
      const Owned pickle = Owned::checked(PyImport_ImportModule("pickle"));
      return Owned::checked(PyObject_CallMethod(pickle.get(), "loads", "y#", rest.data(), size));
    }
    default:
      raise_foreign(bytes);
  }
}

}  // namespace tmh::python
