#pragma once

#include "oncebox/curl/handles.hpp"
#include "oncebox/http/http_store.hpp"

namespace oncebox::http {

using curl::add_field;
using curl::EasyHandle;
using curl::FieldList;
using curl::make_easy_handle;
using curl::make_multi_handle;
using curl::MultiHandle;
using curl::set;

/// Protocol, TLS and timeouts as the options say.
void apply_options(CURL* handle, const Options& options);

}  // namespace oncebox::http
