#include "curl_setup.hpp"

#include <fmt/format.h>

#include <new>
#include <string>

#include "oncebox/error.hpp"

namespace oncebox::http {

namespace {

void initialise_once() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  require_ok(code);
}

void set_path(CURL* handle, CURLoption option, const std::filesystem::path& path) {
  if (!path.empty()) set(handle, option, path.c_str());
}

}  // namespace

void require_ok(CURLcode code) {
  if (code == CURLE_OK) return;
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  throw Error(ErrorCode::internal,
              fmt::format("libcurl refused an option: {}", curl_easy_strerror(code)));
}

EasyHandle make_easy_handle() {
  initialise_once();
  EasyHandle handle(curl_easy_init());
  if (!handle) throw Error(ErrorCode::internal, "libcurl gave no handle");
  return handle;
}

void add_field(FieldList& fields, const std::string& field) {
  curl_slist* const longer = curl_slist_append(fields.get(), field.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)fields.release();
  fields.reset(longer);
}

void apply_options(CURL* handle, const Options& options) {
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_FOLLOWLOCATION, 0L);
  // Proxies of the environment are for browsing, and would see the tokens.
  set(handle, CURLOPT_PROXY, "");
  // With HTTP/2 a lost connection would not tell which requests were sent.
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(handle, CURLOPT_USERAGENT, "oncebox");
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set_path(handle, CURLOPT_CAINFO, options.ca_file);
  set_path(handle, CURLOPT_SSLCERT, options.client_certificate);
  set_path(handle, CURLOPT_SSLKEY, options.client_key);
}

}  // namespace oncebox::http
