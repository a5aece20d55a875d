// include/tmh/tmh.hpp -- umbrella header of the C++ interface.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <tmh/allocator.hpp>
#include <tmh/domain.hpp>
#include <tmh/error.hpp>
#include <tmh/field.hpp>
#include <tmh/image.hpp>
#include <tmh/instance.hpp>
#include <tmh/latency.hpp>
#include <tmh/options.hpp>
#include <tmh/past.hpp>
#include <tmh/pool.hpp>
#include <tmh/root.hpp>
#include <tmh/site.hpp>
#include <tmh/transaction.hpp>
