// error: the key of a pipeline takes a const Payload& or a const Envelope<Payload>&, and answers a
// text or an optional one

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

// Overloads, of which none fits, are not taken for a declaration without a key.
struct Declared {
  using Payload = std::string;
  static std::string key(int number);
  static std::string key(Payload& changed);
  void handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
