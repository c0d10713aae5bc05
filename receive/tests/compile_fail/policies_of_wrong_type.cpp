// error: the policies of a pipeline: static ReceiverOptions policies();

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  static DuplicatePolicy policies() { return DuplicatePolicy::suppress; }
  void handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
