# Writes OUTPUT, a C++ file with `std::string_view FUNCTION() noexcept` in the namespace NAMESPACE,
# which answers the bytes of INPUT.

file(READ "${INPUT}" digits HEX)
# Lines of 24 bytes, for those who look into it.
string(REPEAT "[0-9a-f]" 48 line)
string(REGEX REPLACE "(${line})" "\\1\n" digits "${digits}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${digits}")
file(WRITE "${OUTPUT}" "#include <string_view>

namespace ${NAMESPACE} {

std::string_view ${FUNCTION}() noexcept;

std::string_view ${FUNCTION}() noexcept {
  static constexpr unsigned char kBytes[] = {
${bytes}
  };
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

}  // namespace ${NAMESPACE}
")
