#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

/// What every use of libcurl begins with.
namespace oncebox::curl {

/// Calls a function of libcurl's. Most of its handles are `void`, so that their types do not tell
/// which one frees them.
template <auto kFree>
struct FreedBy {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    kFree(handle);
  }
};

using EasyHandle = std::unique_ptr<CURL, FreedBy<curl_easy_cleanup>>;
using MultiHandle = std::unique_ptr<CURLM, FreedBy<curl_multi_cleanup>>;
using UrlHandle = std::unique_ptr<CURLU, FreedBy<curl_url_cleanup>>;
using FieldList = std::unique_ptr<curl_slist, FreedBy<curl_slist_free_all>>;
/// Text that libcurl allocated.
using Text = std::unique_ptr<char, FreedBy<curl_free>>;

/// These throw `internal` when libcurl gives none.
[[nodiscard]] EasyHandle make_easy_handle();
[[nodiscard]] MultiHandle make_multi_handle();

/// Throws `internal` when libcurl does not take an option: it is then one that this build needs.
void require_ok(CURLcode code);

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  require_ok(curl_easy_setopt(handle, option, value));
}

/// Adds a whole line, `name: value`; `name:` alone keeps libcurl from sending that field.
void add_field(FieldList& fields, const std::string& line);

/// What holds for every request: HTTP or HTTPS, no redirection is followed, certificates are
/// verified, and no connection is used again that was idle for 45 seconds.
void apply_basics(CURL* handle);

}  // namespace oncebox::curl
