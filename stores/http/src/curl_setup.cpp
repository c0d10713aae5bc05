#include "curl_setup.hpp"

namespace oncebox::http {

namespace {

void set_path(CURL* handle, CURLoption option, const std::filesystem::path& path) {
  if (!path.empty()) set(handle, option, path.c_str());
}

}  // namespace

void apply_options(CURL* handle, const Options& options) {
  curl::apply_basics(handle);
  // Proxies of the environment are for browsing, and would see the tokens.
  set(handle, CURLOPT_PROXY, "");
  // With HTTP/2 a lost connection would not tell which requests were sent.
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set_path(handle, CURLOPT_CAINFO, options.ca_file);
  set_path(handle, CURLOPT_SSLCERT, options.client_certificate);
  set_path(handle, CURLOPT_SSLKEY, options.client_key);
}

}  // namespace oncebox::http
