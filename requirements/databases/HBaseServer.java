// Starts the HBase of `make test-all PARTS=fetched` in one process: ZooKeeper, master, region server, and the
// Thrift server on a port of 127.0.0.1, which listens when the others are ready.
// Settings are in hbase-site.xml, in a folder on the class path.

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.master.HMaster;

public class HBaseServer {
    public static void main(String[] arguments) throws Exception {
        Thread master = new Thread(() -> HMaster.main(new String[] {"start"}), "master");
        master.setDaemon(true);
        master.start();
        Configuration settings = HBaseConfiguration.create();
        try (Connection connection = ConnectionFactory.createConnection(settings);
                Admin admin = connection.getAdmin()) {
            waitUntilReady(connection, admin);
        }
        org.apache.hadoop.hbase.thrift2.ThriftServer.main(
                new String[] {"-b", "127.0.0.1", "-p", arguments[0], "start"});
    }

    // After a restart, tables are there only when the log of the last run was read.
    private static void waitUntilReady(Connection connection, Admin admin) throws Exception {
        while (true) {
            try {
                boolean ready = true;
                for (TableName table : admin.listTableNames()) {
                    ready &= admin.isTableAvailable(table);
                }
                if (ready && admin.isTableAvailable(TableName.valueOf("hbase:namespace"))) {
                    return;
                }
            } catch (java.io.IOException error) {
                System.err.println("not ready: " + error.getMessage());
            }
            Thread.sleep(100);
        }
    }
}
