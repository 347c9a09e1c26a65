// Starts the MongoDB server of `make test-all PARTS=fetched`, in memory, on a port of 127.0.0.1.
// It says that it is version 6.0: clients of today refuse what it would say by itself.

import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

public class MongoServer {
    public static void main(String[] arguments) {
        MemoryBackend backend = new MemoryBackend();
        backend.version(new MongoVersion() {
            public List<Integer> getVersionArray() {
                return List.of(6, 0, 0);
            }

            public int getWireVersion() {
                return 17;
            }
        });
        new de.bwaldvogel.mongo.MongoServer(backend).bind("127.0.0.1", Integer.parseInt(arguments[0]));
    }
}
