#include "oncebox/curl/handles.hpp"

#include <fmt/format.h>

#include <new>

#include "oncebox/error.hpp"

namespace oncebox::curl {

namespace {

// Servers and what stands before them close connections that were idle for long, ours after 75 s,
// others after a minute. A request that meets that very moment would be lost.
constexpr long kMaxIdleSeconds = 45;

void initialise_once() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  require_ok(code);
}

}  // namespace

EasyHandle make_easy_handle() {
  initialise_once();
  EasyHandle handle(curl_easy_init());
  if (!handle) throw Error(ErrorCode::internal, "libcurl gave no handle");
  return handle;
}

MultiHandle make_multi_handle() {
  initialise_once();
  MultiHandle handle(curl_multi_init());
  if (!handle) throw Error(ErrorCode::internal, "libcurl gave no handle");
  return handle;
}

void require_ok(CURLcode code) {
  if (code == CURLE_OK) return;
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  throw Error(ErrorCode::internal,
              fmt::format("libcurl refused an option: {}", curl_easy_strerror(code)));
}

void add_field(FieldList& fields, const std::string& line) {
  curl_slist* const longer = curl_slist_append(fields.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)fields.release();
  fields.reset(longer);
}

void apply_basics(CURL* handle) {
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_FOLLOWLOCATION, 0L);
  set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
  set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
  set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(handle, CURLOPT_USERAGENT, "oncebox");
  set(handle, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
}

}  // namespace oncebox::curl
