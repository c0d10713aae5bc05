#pragma once

#include <string_view>

#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#ifdef ONCEBOX_WITH_POSTGRESQL
#include "oncebox/postgresql/postgresql_store.hpp"
#endif

/// From the parameters of a URL to options.
namespace oncebox {

template <class Number>
void take_number(StoreUrl& url, std::string_view name, Number& value) {
  if (const auto number = url.take_number(name)) value = Number(*number);
}

#ifdef ONCEBOX_WITH_POSTGRESQL
inline postgresql::Pooling pooling_named(std::string_view name) {
  if (name == "none") return postgresql::Pooling::none;
  if (name == "transaction") return postgresql::Pooling::transaction;
  throw Error(ErrorCode::invalid_argument, "pooling is none or transaction");
}
#endif

}  // namespace oncebox
