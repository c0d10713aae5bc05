#include "oncebox/engine/exception_text.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
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

std::string current_exception_text() noexcept try {
  try {
    throw;
  } catch (const std::exception& error) {
    std::string text = clip_text(error.what(), limits::kMaxErrorBytes);
    return text.empty() ? current_exception_type() : text;
  } catch (...) {
    return "an exception that is not a std::exception";
  }
} catch (const std::bad_alloc&) {
  return "no memory";  // short enough to need none
}

}  // namespace oncebox::detail
