#pragma once

#include <curl/curl.h>

#include <memory>

#include "oncebox/http/http_store.hpp"

/// What every use of libcurl begins with.
namespace oncebox::http {

struct EasyDeleter {
  void operator()(CURL* handle) const noexcept { curl_easy_cleanup(handle); }
};
using EasyHandle = std::unique_ptr<CURL, EasyDeleter>;

struct ListDeleter {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using FieldList = std::unique_ptr<curl_slist, ListDeleter>;

/// Throws `internal` when there is none.
[[nodiscard]] EasyHandle make_easy_handle();

/// Throws `internal` when libcurl does not take the option: it is then one that this build needs.
template <class Value>
void set(CURL* handle, CURLoption option, Value value);

void add_field(FieldList& fields, const std::string& field);

/// Protocol, TLS and timeouts as the options say.
void apply_options(CURL* handle, const Options& options);

void require_ok(CURLcode code);

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  require_ok(curl_easy_setopt(handle, option, value));
}

}  // namespace oncebox::http
