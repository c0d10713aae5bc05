#include "oncebox/engine/exception_text.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include "oncebox/limits.hpp"

namespace oncebox::detail {

std::string current_exception_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
  return name != nullptr ? name.get() : type->name();
}

std::string current_exception_text() {
  std::string text;
  try {
    throw;
  } catch (const std::exception& error) {
    text = clip_text(error.what(), limits::kMaxErrorBytes);
    if (text.empty()) text = current_exception_type();
  } catch (...) {
    text = "an exception that is not a std::exception";
  }
  return text;
}

}  // namespace oncebox::detail
