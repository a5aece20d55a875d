// bindings/python/src/codec.h -- keys and values of tmh.Dict as bytes.
// Format:    a key's bytes are ordered as the keys are (memcmp): int before bytes before str; ints
//            by value, bytes and UTF-8 by bytes.
//              int    0x20 + n or 0x20 - n, n magnitude bytes, n up to 16: magnitude, big-endian;
//                     of negative ints its complement
//              bytes  0x60, the bytes
//              str    0x61, UTF-8
//            A value is a tag and what follows it: None 'n'; bool 't' 'f'; int 'i' (8 bytes,
//            little-endian) and 'I' (two's complement, little-endian, of any length); float 'd';
//            bytes 'b'; str 's'; number of numpy 'c' (its type's letter, its bytes); other
//            arrays and scalars of numpy 'a' (length of the head in 4 bytes,
//            head as numpy's .npy header text, data in C order); pickle 'p'.
// Errors:    ErrorIsSet: TypeError, OverflowError, UnicodeEncodeError. A value whose bytes are none
//            of these: ValueError.
#pragma once

#include <string>
#include <string_view>

#include "bindings/python/src/python.h"

namespace tmh::python {

[[nodiscard]] std::string encode_key(PyObject *key);
[[nodiscard]] Owned decode_key(std::string_view bytes);
// pickles: may the value be one of a type that is not listed?
[[nodiscard]] std::string encode_value(PyObject *value, bool pickles);
[[nodiscard]] Owned decode_value(std::string_view bytes, bool pickles);

}  // namespace tmh::python
