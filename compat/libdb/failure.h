// compat/libdb/failure.h -- what ends a call of db(3) with -1: a number of errno.
#pragma once

namespace tmh::db {

struct Failure {
  int number;
};

}  // namespace tmh::db
